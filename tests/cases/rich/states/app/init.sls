{% from tpldir ~ '/map.jinja' import app, setting with context %}
include:
  - .conf
  - parts.shared

app:
  test.succeed_with_changes:
    - name: {{ app.name }}
    - require:
      - sls: app.conf
    - watch_in:
      - test: app restart
  file.managed:
    - name: /srv/rich/{{ slspath }}/{{ salt['rich.shout']('app') }}.conf
    - contents: |
        {{ setting('port') }}
        {{ app.packages | join(',') }}
    - makedirs: True

app restart:
  test.nop:
    - listen:
      - file: app

several:
  test.succeed_without_changes:
    - names:
      {% for package in app.packages | sort(reverse=True) %}
      - {{ package }}
      {% endfor %}
      - three:
        - comment: of its own
    - order: 5

last of all:
  test.nop:
    - order: last

extend:
  conf file:
    file:
      - contents: extended
      - require:
        - test: several

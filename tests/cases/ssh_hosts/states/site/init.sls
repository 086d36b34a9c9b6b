{% set who = salt['cmd.run']('hostname') %}
include:
  - site.users

hello-catena:
  pkg.installed:
    - version: '1.0'
    - refresh: True

cron:
  service.running:
    - enable: True
    - require:
      - pkg: hello-catena

/srv/site/{{ who }}.conf:
  file.managed:
    - source: salt://site/conf.j2
    - template: jinja
    - makedirs: True
    - mode: '0640'
    - user: worker
    - require:
      - user: worker
    - watch_in:
      - service: cron

/srv/site/tree:
  file.recurse:
    - source: salt://site/tree
    - clean: True

/srv/site/house:
  housed.present:
    - text: {{ salt['house.describe']('a house') }}

note:
  cmd.run:
    - name: echo "$(id -un) in $PWD" > /srv/site/note
    - cwd: /srv/site
    - creates: /srv/site/note

colour:
  module.run:
    - house.colour: []

missing:
  file.exists:
    - name: /srv/site/nothing
    - require:
      - cmd: note

never:
  cmd.run:
    - name: touch /srv/site/never
    - require:
      - file: missing

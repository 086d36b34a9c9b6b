{%- from "map.jinja" import root with context %}
web_page:
  file.managed:
    - name: {{ root }}/srv/www/index.html
    - source: salt://web/index.html.jinja
    - template: jinja
    - makedirs: true
    - mode: '0644'
    - context:
        greeting: {{ pillar.get('greeting', 'Hello') | tojson }}

web_settings:
  file.managed:
    - name: {{ root }}/etc/web/web.conf
    - source: salt://web/web.conf.jinja
    - template: jinja
    - makedirs: true
    - mode: '0640'
    - require:
      - file: web_page

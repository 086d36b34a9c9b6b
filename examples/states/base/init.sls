{%- from "map.jinja" import root with context %}
{{ root }}/etc/motd:
  file.managed:
    - makedirs: true
    - mode: '0644'
    - contents: |
        {{ grains['id'] }}, {{ pillar.get('site', 'somewhere') }}
        managed by catena

{{ root }}/etc/hosts.d/fleet:
  file.managed:
    - makedirs: true
    - source: salt://base/fleet.jinja
    - template: jinja
    - context:
        hosts: {{ pillar.get('fleet', []) | tojson }}

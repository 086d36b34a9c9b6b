{%- from "map.jinja" import root with context %}
motd:
  file.managed:
    - name: {{ root }}/etc/motd
    - makedirs: true
    - mode: '0644'
    - contents: |
        {{ grains['id'] }}, {{ pillar.get('site', 'somewhere') }}
        managed by catena

fleet_hosts:
  file.managed:
    - name: {{ root }}/etc/hosts.d/fleet
    - makedirs: true
    - source: salt://base/fleet.jinja
    - template: jinja
    - context:
        hosts: {{ pillar.get('fleet', []) | tojson }}

{%- from "map.jinja" import root with context %}
db_settings:
  file.managed:
    - name: {{ root }}/etc/db/db.conf
    - makedirs: true
    - mode: '0600'
    - contents:
      - "# Managed by catena."
      - "data = {{ root }}/var/lib/db"
      - "memory_mib = {{ pillar.get('db', {}).get('memory_mib', 256) }}"

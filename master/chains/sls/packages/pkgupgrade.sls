{#- Upgrades packages to the newest version: pillar param_pkgs is a list of [name, version] or
    [name, arch, version]; one with a version goes to that version. #}
{%- set mark = ':' if grains.get('os_family') == 'Debian' else '.' %}
{%- set newest = [] %}
{%- set fixed = [] %}
{%- for package in pillar['param_pkgs'] %}
{%-   set version = package[-1] %}
{%-   do (fixed if version else newest).append([package[:-1] | join(mark), version]) %}
{%- endfor %}
{%- if newest %}
mgr_pkg_upgrade:
  pkg.latest:
    - refresh: true
    - pkgs:
{%-   for name, version in newest %}
      - {{ name | tojson }}
{%-   endfor %}
{%- endif %}
{%- if fixed %}
mgr_pkg_upgrade_to:
  pkg.installed:
    - refresh: true
    - pkgs:
{%-   for name, version in fixed %}
      - {{ name | tojson }}: {{ version | tojson }}
{%-   endfor %}
{%- endif %}

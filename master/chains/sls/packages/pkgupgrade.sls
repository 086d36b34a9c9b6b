{#- Upgrades packages to the newest version: pillar param_pkgs is a list of [name, version]; one
    with a version goes to that version. #}
{%- set newest = [] %}
{%- set fixed = [] %}
{%- for name, version in pillar['param_pkgs'] %}
{%-   do (fixed if version else newest).append([name, version]) %}
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

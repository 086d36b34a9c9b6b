{#- Removes packages: pillar param_pkgs is a list of [name, version] or [name, arch, version]. #}
{%- set mark = ':' if grains.get('os_family') == 'Debian' else '.' %}
mgr_pkg_remove:
  pkg.removed:
    - pkgs:
{%- for package in pillar['param_pkgs'] %}
      - {{ package[:-1] | join(mark) | tojson }}
{%- endfor %}

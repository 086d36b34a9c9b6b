{#- Removes packages: pillar param_pkgs is a list of [name, version]. #}
mgr_pkg_remove:
  pkg.removed:
    - pkgs:
{%- for name, version in pillar['param_pkgs'] %}
      - {{ name | tojson }}
{%- endfor %}

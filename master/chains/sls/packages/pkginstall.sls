{#- Installs packages: pillar param_pkgs is a list of [name, version], version '' for any. #}
mgr_pkg_install:
  pkg.installed:
    - refresh: true
    - pkgs:
{%- for name, version in pillar['param_pkgs'] %}
      - {{ name | tojson }}{% if version %}: {{ version | tojson }}{% endif %}
{%- endfor %}

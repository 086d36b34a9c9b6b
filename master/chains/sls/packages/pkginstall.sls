{#- Installs packages: pillar param_pkgs is a list of [name, version] or [name, arch, version],
    version '' for any. #}
{%- set mark = ':' if grains.get('os_family') == 'Debian' else '.' %}
mgr_pkg_install:
  pkg.installed:
    - refresh: true
    - pkgs:
{%- for package in pillar['param_pkgs'] %}
{%-   set name, version = package[:-1] | join(mark), package[-1] %}
      - {{ name | tojson }}{% if version %}: {{ version | tojson }}{% endif %}
{%- endfor %}

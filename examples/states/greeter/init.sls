{#- Installs the package "greeter" from the folder packages/greeter.

    The demo simulates the package manager: the package is a folder of files that are copied below
    the demo host's root, and a file records its version. On a real host, use `pkg.installed` with
    the name of a package instead. #}
{%- from "map.jinja" import root with context %}
{%- set version = '1.0' %}
greeter_files:
  file.recurse:
    - name: {{ root }}/usr/bin
    - source: salt://packages/greeter/usr/bin
    - file_mode: '0755'
    - makedirs: true

greeter_version:
  file.managed:
    - name: {{ root }}/var/lib/packages/greeter
    - contents: {{ version | tojson }}
    - makedirs: true
    - require:
      - file: greeter_files

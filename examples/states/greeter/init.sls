{#- Installs the package "greeter" from the folder packages/greeter.

    What is simulated in the demo: the package manager. The package is a folder of files that are
    copied below the demo host's root, and its version is noted in a file. On a real host the same
    place has `pkg.installed` with the name of a package. #}
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

"""The files that `catena scaffold` writes; NAME stands for the user's name in paths and texts."""

from __future__ import annotations

from typing import Mapping

_STATE = '''\
"""States of NAME.

In an SLS file:

    /etc/NAME.conf:
      NAME.written:
        - text: hello
"""


def written(name, text):
    """Make the file *name* consist of the line *text*."""
    ret = {"name": name, "result": True, "changes": {}, "comment": f"{name} is correct"}
    wanted = f"{text}\\n"
    exists, read, write = (__salt__[f"file.{one}"] for one in ("file_exists", "read", "write"))
    old = read(name) if exists(name) else None
    if old == wanted:
        return ret
    ret["changes"] = {name: {"old": old, "new": wanted}}
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"{name} would be written"
        return ret
    write(name, args=[text])
    ret["comment"] = f"{name} was written"
    return ret
'''

_STATE_TEST = """\
# catena test FOLDER runs these tests. Nothing on this host is changed.
tests:
- name: a missing file would be written
  functions:
    file.file_exists: false
  state: NAME.written
  arguments: {name: /etc/NAME.conf, text: hello}
  result: null
  changes: {/etc/NAME.conf: {old: null, new: "hello\\n"}}
  comment: would be written

- name: a correct file stays
  functions:
    file.file_exists: true
    file.read: "hello\\n"
  state: NAME.written
  arguments: {name: /etc/NAME.conf, text: hello}
  result: true
  changes: {}

- name: the text is required
  state: NAME.written
  arguments: {name: /etc/NAME.conf}
  error: text
"""

_MODULE = '''\
"""Execution functions of NAME: catena run '*' NAME.greet"""


def greet(name="world"):
    """Return a greeting that names this host's system."""
    return f"Hello {name} from {__grains__.get('os', 'an unknown system')}"


def uptime_days():
    """Return for how many days this host has run."""
    text = __salt__["cmd.run"]("cat /proc/uptime")
    return int(float(text.split()[0]) // 86400)
'''

_MODULE_TEST = """\
# catena test FOLDER runs these tests. Nothing on this host is changed.
tests:
- name: greets by name
  system: debian-12
  call: NAME.greet
  arguments: {name: web1}
  value: Hello web1 from Debian

- name: counts whole days
  functions:
    cmd.run: 180000.42 350000.00
  call: NAME.uptime_days
  value: 2

- name: refuses an unknown argument
  call: NAME.greet
  arguments: {nmae: web1}
  error: nmae
"""

_GRAIN = '''\
"""The grain NAME: catena run -G NAME:VALUE test.ping"""


def NAME(grains):
    """Return the grain; *grains* are those that are known so far."""
    return {"NAME": "server" if grains.get("num_cpus", 1) > 4 else "small"}
'''

_GRAIN_TEST = """\
# catena test FOLDER runs these tests. Nothing on this host is changed.
tests:
- name: few processors
  grains: {num_cpus: 2}
  grain: NAME
  value: small

- name: many processors
  grains: {num_cpus: 16}
  grain: NAME
  value: server
"""

_FORMULA_INIT = """\
{%- from "NAME/map.jinja" import NAME with context %}

NAME-package:
  pkg.installed:
    - name: {{ NAME.package }}

NAME-config:
  file.managed:
    - name: {{ NAME.config_file }}
    - source: salt://NAME/files/NAME.conf.jinja
    - template: jinja
    - mode: '0644'
    - context:
        settings: {{ NAME.settings | json }}
    - require:
      - pkg: NAME-package

NAME-service:
  service.running:
    - name: {{ NAME.service }}
    - enable: true
    - watch:
      - file: NAME-config
"""

_FORMULA_MAP = """\
{#- Values: defaults.yaml, then those of the system, then the pillar NAME:lookup and NAME. #}
{%- import_yaml "NAME/defaults.yaml" as defaults %}
{%- set systems = {
  "RedHat": {"config_file": "/etc/sysconfig/NAME"},
} %}
{%- set NAME = salt["grains.filter_by"](
  systems, grain="os_family", merge=salt["pillar.get"]("NAME:lookup"), default="none",
  base=None) or {} %}
{%- set given = salt["pillar.get"]("NAME", {}) %}
{%- set NAME = salt["slsutil.merge"](salt["slsutil.merge"](defaults, NAME), given) %}
"""

_FORMULA_DEFAULTS = """\
package: NAME
service: NAME
config_file: /etc/NAME.conf
settings:
  port: 8080
"""

_FORMULA_CONF = """\
# This file is managed; changes will be overwritten.
{%- for key, value in settings | dictsort %}
{{ key }} = {{ value }}
{%- endfor %}
"""

_FORMULA_PILLAR = """\
NAME:
  settings:
    port: 9090
"""

_FORMULA_README = """\
# NAME-formula

Installs and configures NAME. Values and their defaults are in `NAME/defaults.yaml`; override them
in the pillar, as `pillar.example` shows.

    catena test .
"""

_FORMULA_TEST = """\
# catena test FOLDER runs these tests. Nothing on this host is changed.
tests:
- name: defaults on Debian
  system: debian-12
  sls: NAME
  states:
  - id: NAME-package
    function: pkg.installed
    arguments: {name: NAME}
  - id: NAME-config
    function: file.managed
    arguments:
      name: /etc/NAME.conf
      mode: '0644'
      context: {settings: {port: 8080}}
      require: [{pkg: NAME-package}]
  - id: NAME-service
    function: service.running
    arguments: {enable: true}
  only: true
  in_order: true

- name: another place on rpm systems
  system: rocky-9
  sls: NAME
  states:
  - id: NAME-config
    arguments: {name: /etc/sysconfig/NAME}

- name: the pillar wins
  system: debian-12
  pillar: {NAME: {settings: {port: 9090}}}
  sls: NAME
  states:
  - id: NAME-config
    arguments:
      context: {settings: {port: 9090}}
  count: 3
"""

#: Kind -> path below the folder -> text.
TEMPLATES: Mapping[str, Mapping[str, str]] = {
    "state": {"_states/NAME.py": _STATE, "tests/NAME_test.yaml": _STATE_TEST},
    "module": {"_modules/NAME.py": _MODULE, "tests/NAME_test.yaml": _MODULE_TEST},
    "grain": {"_grains/NAME.py": _GRAIN, "tests/NAME_test.yaml": _GRAIN_TEST},
    "formula": {
        "README.md": _FORMULA_README,
        "pillar.example": _FORMULA_PILLAR,
        "NAME/init.sls": _FORMULA_INIT,
        "NAME/map.jinja": _FORMULA_MAP,
        "NAME/defaults.yaml": _FORMULA_DEFAULTS,
        "NAME/files/NAME.conf.jinja": _FORMULA_CONF,
        "tests/NAME_test.yaml": _FORMULA_TEST,
    },
}

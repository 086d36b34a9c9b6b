"""Makes the generated pages of docs/reference from the code that they describe.

Write them anew with `make docs` (`python -m tests.unit.reference_pages`); test_docs.py fails when
one is old.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click

from catena.cli import common_options
from catena.cli.commands import cli
from catena.core.config import master, minion
from catena.core.plugins import Plugin, Registry, StateMark
from catena.master.runners.calls import INDEX as RUNNERS
from catena.runtime.session import execution_registry
from catena.states import INDEX as STATES
from tests.support import fault_matrix
from tests.unit import function_pages, life_cycles_page

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
MADE_BY = "<!-- Made by tests/unit/reference_pages.py (make docs); do not edit. -->"


def cell(text: str) -> str:
    """Return *text* as it may stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


# -- settings ----------------------------------------------------------------------------------

_TYPES = {
    "str": "text",
    "int": "integer",
    "bool": "true or false",
    "List[str]": "list of text",
    "Union[bool, List[str]]": "true or false, or list of text",
    "List[Dict[str, Any]]": "list of mappings",
    "Dict[str, Any]": "mapping",
    "Dict[str, List[str]]": "mapping of lists of text",
    "Union[str, List[str]]": "text or list of text",
    "float": "number, fractions too",
}


@cache
def sources() -> str:
    """Return the code in which settings are used."""
    rooms = sorted(entry for entry in (ROOT / "catena").iterdir() if entry.is_symlink())
    paths = (path for room in rooms for path in sorted(room.resolve().rglob("*.py")))
    config = ROOT / "core" / "config"
    texts = (path.read_text(encoding="utf-8") for path in paths if config not in path.parents)
    return "\n".join(texts) + (config / "folders.py").read_text(encoding="utf-8")


def is_used(name: str) -> bool:
    """Return whether some code acts on a setting."""
    return name in _words()


@cache
def _words() -> frozenset[str]:
    return frozenset(re.findall(r"\w+", sources()))


def _values(field: dataclasses.Field[Any]) -> str:
    rule = field.metadata
    if rule["choices"]:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in rule["choices"])
    text = _TYPES[str(field.type)]
    if rule["low"] is not None:
        text += f", {rule['low']} to {rule['high']}"
    return text


def _shown(value: Any) -> str:
    if value == "" or value == [] or value == {}:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{cell(str(value))}`"


def _settings_table(kind: type[Any]) -> Iterator[str]:
    yield "| setting | default | values | meaning |"
    yield "|---|---|---|---|"
    defaults = kind()
    for field in dataclasses.fields(kind):
        default = _shown(getattr(defaults, field.name))
        meaning = cell(field.metadata["help"])
        yield f"| `{field.name}` | {default} | {_values(field)} | {meaning} |"


def settings() -> str:
    """Return settings.md."""
    lines = [
        "# Settings",
        "",
        MADE_BY,
        "",
        "The master reads the file `master`, the minion the file `minion`, in the folder that",
        "`--config-dir` names (`/etc/catena` by default). Then each reads every `master.d/*.conf`",
        "or `minion.d/*.conf` in the order of the names. Later files override earlier ones;",
        "mappings are merged. Files whose names begin with `_` are state of the agent, never",
        "configuration. All files are YAML.",
        "",
        "An unknown key, a wrong type or a value out of range is an error. The message names the",
        "key and, if there is one, the nearest valid name. `catena config check` finds such",
        "errors without starting a daemon. Dotted keys such as `mysql.host` are passed to modules",
        "that read them.",
        "",
        "`root_dir` is put before the defaults of `cache_dir`, `state_dir`, `pki_dir`, `run_dir`,",
        "`log_file` and `agent_dir`; values that you set stay unchanged. Without `root_dir`, a",
        "configuration outside `/etc/catena` keeps these folders beside it, in `state/master` or",
        "`state/minion`, so that you don't need root.",
        "",
    ]
    for title, module, kind in (
        ("Master", master, master.MasterSettings),
        ("Minion", minion, minion.MinionSettings),
    ):
        lines += [f"## {title}", "", *_settings_table(kind), ""]
        keys = ", ".join(f"`{key}`" for key in sorted(module.SALT_KEYS))
        lines += [
            f"### Salt's keys without effect: {title.lower()}",
            "",
            "catena accepts these keys, so that you can use a Salt configuration unmodified.",
            "`catena config check` lists them once:",
            "",
            keys + ".",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


# -- commands ----------------------------------------------------------------------------------


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all below it, with their full names."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from commands(found, f"{name} {sub}")


def _usage(name: str, command: click.Command) -> str:
    words = [name]
    if any(isinstance(param, click.Option) for param in command.params):
        words.append("[OPTIONS]")
    for param in command.params:
        if isinstance(param, click.Argument):
            word = (param.name or "").upper()
            words.append((word if param.required else f"[{word}]") + "..." * (param.nargs == -1))
    if isinstance(command, click.Group):
        words.append("[COMMAND]" if command.invoke_without_command else "COMMAND")
    return " ".join(words)


def _takes(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if option.metavar:
        return f"`{option.metavar}`".replace("|", "\\|")
    if isinstance(option.type, click.Choice):
        return " \\| ".join(f"`{choice}`" for choice in option.type.choices)
    words = {"text": "text", "path": "path", "file": "path", "directory": "path"}
    kind = words.get(option.type.name, "number")
    low, high = getattr(option.type, "min", None), getattr(option.type, "max", None)
    if low is not None and high is not None:
        return f"{kind}, {low} to {high}"
    return f"{kind}, at least {low}" if low is not None else kind


def _options(command: click.Command) -> Iterator[str]:
    options = [param for param in command.params if isinstance(param, click.Option)]
    if command.name != "cli":
        options = [option for option in options if option.name not in common_options.names()]
    if not options:
        return
    yield from ("| option | takes | meaning |", "|---|---|---|")
    for option in options:
        names = ", ".join(f"`{name}`" for name in option.opts)
        words = [cell(option.help or "")]
        if option.required:
            words.append("Required.")
        if option.multiple:
            words.append("May be given several times.")
        if type(option.default) in (int, float, str) and option.default not in ("", -1):
            words.append(f"Default: `{option.default}`.")
        if option.envvar:
            words.append(f"Environment: `{option.envvar}`.")
        yield f"| {names} | {_takes(option)} | {' '.join(filter(None, words))} |"
    yield ""


_CLI_HEAD = f"""\
# Commands

{MADE_BY}

`catena -h` and `catena COMMAND -h` print the same. Commands that ask the master use the socket
`master.sock` in its `run_dir`. They run on the master's host, as root, as the master's own user or
as one of `cli_users`. `catena call`, `catena config` and `catena doc` need no master.

Commands print only data to standard output, and everything else to standard error.

Every command also accepts the options of `catena` itself for the log (`-l`), colours and the
output file (`--out-file`), before or after its name.

| exit code | meaning |
|---|---|
| 0 | all succeeded |
| 1 | some failed |
| 2 | nothing matched, or wrong usage |
| 3 | not reached: no master, or minions that are not connected |
| 75 | try later: the same command may succeed then |
| 130 | Ctrl-C; a watched job or chain continues |

Arguments of functions are YAML values; `name=value` is a keyword argument.
"""


def cli_page() -> str:
    """Return cli.md."""
    lines = [_CLI_HEAD]
    for name, command in commands(cli, "catena"):
        level = "##" if name.count(" ") < 2 else "###"
        lines += [f"{level} {name}", "", f"    {_usage(name, command)}", ""]
        text = inspect.cleandoc(command.help or "")
        if text:
            lines += [text, ""]
        lines += _options(command)
    return "\n".join(lines).rstrip() + "\n"


# -- functions ---------------------------------------------------------------------------------


def _entry(plugin: Plugin) -> str:
    """Return a row: name, arguments, first line of the text."""
    first = plugin.doc().partition("\n")[0]
    return f"| `{plugin.name}` | `{cell(plugin.usage())}` | {cell(first)} |"


def _by_module(registry: Registry, folder: str) -> Iterator[str]:
    for prefix in registry.prefixes():
        plugins: Mapping[str, Plugin] = registry.module(prefix)
        head = f"### [{prefix}]({folder}/{prefix}.md)"
        yield from (head, "", "| name | arguments | does |", "|---|---|---|")
        for name in sorted(plugins):
            yield _entry(plugins[name])
        yield ""


def functions() -> str:
    """Return functions.md."""
    lines = [
        "# Functions and states",
        "",
        MADE_BY,
        "",
        "These functions are built in. `catena doc FUNCTION` prints the whole text of an",
        "execution function. Files in `_modules`, `_states` and `_grains` of the file roots add",
        "custom functions on the minion. The name of a module leads to a page with all arguments",
        "and an example of each function.",
        "",
        "## Execution functions",
        "",
        "You call them with `catena run`, `catena call`, `--call` of a chain, `salt['…']` in",
        "templates, and `module.run`.",
        "",
        *_by_module(execution_registry(), "functions"),
        "## States",
        "",
        "You use them in SLS files and with `state.single`. In addition to these arguments, every",
        "state accepts requisites and conditions (`require`, `watch`, `onchanges`, `unless`, …).",
        "",
        *_by_module(Registry("state", STATES, StateMark), "states"),
        "## Runners",
        "",
        "Runners are functions of the master. You call them with `catena runner FUNCTION`, or",
        "with `runner.FUNCTION` in reactor files.",
        "",
        "| name | arguments | does |",
        "|---|---|---|",
    ]
    lines += [_entry(Plugin(name, RUNNERS[name], None)) for name in sorted(RUNNERS)]
    return "\n".join(lines).rstrip() + "\n"


# -- the other pages ---------------------------------------------------------------------------


def life_cycles() -> str:
    """Return life-cycles.md."""
    return life_cycles_page.page(MADE_BY)


PAGES: Mapping[str, Callable[[], str]] = {
    "settings.md": settings,
    "cli.md": cli_page,
    "functions.md": functions,
    "life-cycles.md": life_cycles,
    "faults.md": fault_matrix.page,
    **function_pages.pages(MADE_BY),
}

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, make in PAGES.items():
        (FOLDER / file).parent.mkdir(exist_ok=True)
        (FOLDER / file).write_text(make(), encoding="utf-8")

"""Reference pages of functions and states: a page per module, with arguments and an example."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from catena.core.plugins import Plugin, Registry
from catena.core.signatures import REQUIRED, Parameter
from catena.renderers.yaml import dump
from catena.runtime.session import execution_registry, state_registry
from tests.unit.function_examples import example
from tests.unit.runtime.state_calls import EXAMPLES

#: Folder of the examples of states in the pages, for the sandbox of their tests.
_SANDBOX = "/srv/example"
_SECTION = re.compile(r"^(Args|Raises|Returns):\n((?:(?: .*)?\n?)*)", re.MULTILINE)
_ITEM = re.compile(r"^ {4}([\w*]+(?: [A-Z]\w+)?): ", re.MULTILINE)


def cell(text: str) -> str:
    """Return *text* as it may stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def sections(doc: str) -> tuple[str, Mapping[str, Mapping[str, str]]]:
    """Return a docstring's text, and {"Args": {name: meaning}, "Raises": {…}}."""
    found = {}
    for title, body in _SECTION.findall(f"{doc}\n"):
        parts = _ITEM.split(f"{body}\n")
        found[title] = {
            name: " ".join(text.split())
            for name, text in zip(parts[1::2], parts[2::2], strict=True)
        }
    return _SECTION.sub("", f"{doc}\n").strip(), found


def _default(one: Parameter) -> str:
    if one.many:
        return "any number"
    return "required" if one.default is REQUIRED else f"`{cell(_readable(one.default))}`"


def _readable(value: Any) -> str:
    shown = repr(value)
    return "…" if " at 0x" in shown else shown


def _arguments(plugin: Plugin, meanings: Mapping[str, str]) -> Iterator[str]:
    shown = plugin.parameters()
    if not shown:
        return
    yield from ("", "| argument | default | meaning |", "|---|---|---|")
    for one in shown:
        # A trailing _ makes a name of Salt possible in Python.
        name = one.name if one.name in meanings else one.name.rstrip("_")
        meaning = cell(meanings.get(one.name, meanings.get(name, "")))
        yield f"| `{one.name}` | {_default(one)} | {meaning} |"


def _function(plugin: Plugin, shown: Callable[[Plugin], Iterator[str]]) -> Iterator[str]:
    text, found = sections(plugin.doc())
    yield from (f"## {plugin.name}", "", *text.splitlines())
    yield from _arguments(plugin, found.get("Args", {}))
    if found.get("Raises"):
        yield from ("", "Errors:", "")
        yield from (f"- `{kind}`: {why}" for kind, why in found["Raises"].items())
    yield from shown(plugin)
    yield ""


def _call(plugin: Plugin) -> Iterator[str]:
    words = shlex.join([plugin.name, *example(plugin)])
    yield from ("", "Example:", "", f"    catena call {words}")


def _declaration(plugin: Plugin) -> Iterator[str]:
    """Yield an SLS file with the first example of a state that is plain data."""
    for one in EXAMPLES:
        if one.fun == plugin.name and not any(map(callable, one.args.values())):
            given = [{"name": one.name}, *({key: value} for key, value in one.args.items())]
            text = dump({"example": {one.fun: given}}).replace("{s}", _SANDBOX)
            yield from ("", "Example:", "", *(f"    {line}" for line in text.splitlines()))
            return


def _page(
    registry: Registry,
    prefix: str,
    title: str,
    shown: Callable[[Plugin], Iterator[str]],
    made_by: str,
) -> str:
    plugins = registry.module(prefix)
    lines = [f"# {title}", "", made_by, ""]
    for name in sorted(plugins):
        lines += _function(plugins[name], shown)
    return "\n".join(lines).rstrip() + "\n"


def pages(made_by: str) -> dict[str, Callable[[], str]]:
    """Return the maker of each page by its path below docs/reference."""
    functions, states = execution_registry(), state_registry()
    found: dict[str, Callable[[], str]] = {}
    for name in functions.prefixes():
        title = f"Functions: {name}"
        found[f"functions/{name}.md"] = partial(_page, functions, name, title, _call, made_by)
    for name in states.prefixes():
        title = f"States: {name}"
        found[f"states/{name}.md"] = partial(_page, states, name, title, _declaration, made_by)
    return found

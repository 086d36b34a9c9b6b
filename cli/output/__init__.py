"""Formatting of answers: one function per --out, from data to text."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Mapping, Protocol

#: --out -> module of its renderer.
OUTPUTS: Mapping[str, str] = {
    "highstate": "catena.cli.output.highstate",
    "json": "catena.cli.output.plain",
    "jsonl": "catena.cli.output.plain",
    "key": "catena.cli.output.key_lists",
    "nested": "catena.cli.output.nested",
    "pprint": "catena.cli.output.plain",
    "quiet": "catena.cli.output.plain",
    "raw": "catena.cli.output.plain",
    "table": "catena.cli.output.grid",
    "txt": "catena.cli.output.plain",
    "yaml": "catena.cli.output.plain",
}


class Renderer(Protocol):
    """Makes the text of one minion's answer, without a final newline."""

    def __call__(self, minion: str, value: Any, colour: bool) -> str:
        """Return the text that shows *value* of *minion*."""


def renderer(name: str) -> Renderer:
    """Return the renderer of --out *name*."""
    module = import_module(OUTPUTS[name])
    found: Renderer = getattr(module, name)
    return found

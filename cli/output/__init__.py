"""Formatting of answers: one function per --out, from data to text."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Mapping, Protocol

#: --out -> module of its renderer.
OUTPUTS: Mapping[str, str] = {
    "highstate": "catena.cli.output.highstate",
    "json": "catena.cli.output.plain",
    "jsonl": "catena.cli.output.plain",
    "nested": "catena.cli.output.nested",
    "quiet": "catena.cli.output.plain",
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

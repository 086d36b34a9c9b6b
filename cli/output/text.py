"""Text of hosts made safe for a terminal, and colours."""

from __future__ import annotations

import sys
from typing import Mapping

from catena.core.patterns import lazy_pattern

#: C0 and C1 control characters except tab and newline, and characters that reorder text (X31).
_CONTROL = lazy_pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_CODES: Mapping[str, str] = {
    "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "bold": "1",
    "dim": "2", "light_red": "91",
}  # fmt: skip


def printable(text: str) -> str:
    """Return *text* with every control character as a visible escape sequence."""
    return visible(text.replace("\r\n", "\n"), "\\x{:02x}")


def visible(text: str, form: str) -> str:
    """Return *text* with each control character replaced by its number in *form*."""
    return _CONTROL.sub(lambda match: form.format(ord(match[0])), text)


def paint(text: str, colour: str, on: bool) -> str:
    """Return *text* in *colour* when *on*."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if on and colour else text


def wants_colour(force: bool = False) -> bool:
    """Return whether to use colours: on a terminal, unless the command line decides."""
    import os

    import click

    ctx = click.get_current_context(silent=True)
    asked = ctx.find_root().color if ctx is not None else None
    if asked is not None:
        return asked
    return force or (sys.stdout.isatty() and "NO_COLOR" not in os.environ)

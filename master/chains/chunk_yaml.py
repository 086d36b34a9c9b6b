"""Writes the YAML of chunk files, in the exact form of the reference.

The form: block style, mappings 4 deeper than what holds them, lists in the column of the key that
holds them. An item that is a mapping or a list follows "-   ", any other item "- ". Text is plain
wherever every reader takes it for the same text (`semantics/uyuni.md`, Bytes). No general dumper
keeps this form whatever the values are, and a chunk file must not change with a library's version:
minions check its hash.

The file passes through the renderer `jinja|yaml` on the minion. Text that people gave (a pillar
value, a script's user) must never become template source, so no brace that could open a Jinja tag
is ever written as such: reading a chunk back gives exactly the data that went in, with Jinja or
without.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from catena.core.errors import UsageError

#: What YAML allows for a key on one line, in characters as written.
KEY_LIMIT = 1000
DEPTH_LIMIT = 100
_STEP = 4
_ITEM = "-".ljust(_STEP)
#: Names, paths and ids, most of what a chunk file holds: none of the rules below is about them.
_SIMPLE = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./@%+,=~-]*[A-Za-z0-9_])?\Z")
#: What ends or begins something else than text, wherever it stands: ": ", " #", a ":" or a blank
#: at the end, and the marks between documents.
_NOT_PLAIN = re.compile(r": | #|[: ]\Z|(?:---|\.\.\.)(?: |\Z)")
#: How plain text may begin; "-", "?" and ":" only before something that is no blank.
_PLAIN_START = re.compile(r"[^-?:,\[\]{}#&*!|>'\"%@` ]|[-?:](?! |\Z)")
#: Text that a reader of YAML 1.1 or 1.2 takes for a number, a date or a merge key.
_NO_TEXT = re.compile(
    r"""
    [-+]?0[bB][01_]+ | [-+]?0[oO][0-7_]+ | [-+]?0[xX][0-9a-fA-F_]+
    | [-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?
    | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?
    | [-+]?\.(?:[iI][nN][fF]|[nN][aA][nN])
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?
    | = | << | ~
    """,
    re.VERBOSE,
)
#: Words that YAML 1.1 readers take for something else than text.
_RESERVED = frozenset({"", "y", "n", "yes", "no", "true", "false", "on", "off", "null"})
#: Shorter text is a word.
_WORD = 30
_JINJA = re.compile(r"\{(?=[{%#])")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", '"': '\\"', "\\": "\\\\"}


class UnwritableError(UsageError):
    """A value has no form in a chunk file."""


def write(states: Mapping[str, Any]) -> str:
    """Return *states* (state id -> declaration) as the text of a chunk file.

    Raises:
        UnwritableError: a value that YAML or the wire can't carry, too deep, or too long a key.
    """
    lines: list[str] = []
    _block(lines, states, 0, 0, "")
    return "".join(f"{line}\n" for line in lines)


def _block(lines: list[str], value: Any, column: int, depth: int, lead: str) -> None:
    """Append the lines of a mapping or list; *lead* stands before what is first in it."""
    if depth > DEPTH_LIMIT:
        raise UnwritableError(f"nested deeper than {DEPTH_LIMIT}")
    indent = " " * column
    if isinstance(value, (list, tuple)):
        for item in value:
            if _is_block(item):
                _block(lines, item, column + _STEP, depth + 1, f"{lead}{_ITEM}")
            else:
                lines.append(f"{lead}- {_flow(item)}")
            lead = indent
        return
    for key, item in value.items():
        if _is_block(item):
            lines.append(f"{lead}{_key(key)}:")
            inner = column if isinstance(item, (list, tuple)) else column + _STEP
            _block(lines, item, inner, depth + 1, " " * inner)
        else:
            lines.append(f"{lead}{_key(key)}: {_flow(item)}")
        lead = indent


def _is_block(value: Any) -> bool:
    # Most are text, and the last of these is slow to ask for.
    if isinstance(value, str):
        return False
    return isinstance(value, (dict, list, tuple, Mapping)) and bool(value)


def _key(key: Any) -> str:
    if not isinstance(key, (str, int)):
        raise UnwritableError(f"a key must be text, not {type(key).__name__}")
    text = quoted(key) if isinstance(key, str) else _flow(key)
    if len(text) > KEY_LIMIT:
        raise UnwritableError(f"the key {text[:60]}... is longer than {KEY_LIMIT} characters")
    return text


def _flow(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    raise UnwritableError(f"a {type(value).__name__} has no form in a chunk file")


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # YAML 1.1 wants a point in every float: 1e+16 would be read as text.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def quoted(text: str) -> str:
    """Return *text* as a YAML scalar on one line that every reader takes for exactly this text."""
    return _quoted_word(text) if len(text) < _WORD else _quoted(text)


@lru_cache(maxsize=256)
def _quoted_word(text: str) -> str:
    # The words of a chunk file are few, and are those of the next one.
    return _quoted(text)


def _quoted(text: str) -> str:
    if _SIMPLE.match(text) and text.lower() not in _RESERVED:
        return text
    if not text.isprintable() or _JINJA.search(text):
        return '"' + "".join(_escaped(text)) + '"'
    if _is_plain(text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _is_plain(text: str) -> bool:
    """Return whether printable *text* needs no quotes in a block."""
    return (
        text.lower() not in _RESERVED
        and _PLAIN_START.match(text) is not None
        and not _NOT_PLAIN.search(text)
        and not _NO_TEXT.fullmatch(text)
    )


def _escaped(text: str) -> list[str]:
    parts = []
    for index, char in enumerate(text):
        if char == "{" and _JINJA.match(text, index):
            parts.append("\\x7B")
        elif char in _ESCAPES:
            parts.append(_ESCAPES[char])
        elif char.isprintable():
            parts.append(char)
        else:
            parts.append(_by_number(ord(char)))
    return parts


def _by_number(number: int) -> str:
    if 0xD800 <= number <= 0xDFFF:
        raise UnwritableError("text with half a surrogate pair has no form in a file")
    if number <= 0xFF:
        return f"\\x{number:02X}"
    return f"\\u{number:04X}" if number <= 0xFFFF else f"\\U{number:08X}"

"""Writes the YAML of chunk files, in the exact form of the reference.

The form is block style. A mapping is indented by 4 columns, a list starts in the column of its
key. An item that is a mapping or a list follows "-   ", any other item follows "- ". Text is
unquoted if every YAML reader reads it as the same text (`semantics/uyuni.md`, Bytes). No general
dumper keeps this form for all values. A chunk file must not change with a library's version,
because minions check its hash.

The minion renders the file with `jinja|yaml`. Text of users (a pillar value, a script's user) must
never become template source, so a brace that could open a Jinja tag is always escaped. Reading a
chunk back gives exactly the data that was written, with or without Jinja.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from catena.core.errors import UsageError

#: Maximum length of a key in characters, quotes included; YAML allows 1024 for a key on one line.
KEY_LIMIT = 1000
#: Maximum nesting of mappings and lists.
DEPTH_LIMIT = 100
_STEP = 4
_ITEM = "-".ljust(_STEP)
#: Names, paths and ids, which are most texts of a chunk file and need none of the rules below.
_SIMPLE = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./@%+,=~-]*[A-Za-z0-9_])?\Z")
#: Parts that make text need quotes: ": ", " #", a ":" or a space at the end, a document marker at
#: the start.
_NOT_PLAIN = re.compile(r": | #|[: ]\Z|\A(?:---|\.\.\.)")
#: Allowed start of unquoted text; "-", "?" and ":" only if no space follows.
_PLAIN_START = re.compile(r"[^-?:,\[\]{}#&*!|>'\"%@` ]|[-?:](?! |\Z)")
#: Text that a reader of YAML 1.1 or 1.2 reads as a number, a date or a merge key.
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
#: Words that YAML 1.1 readers read as null or as a boolean.
_RESERVED = frozenset({"", "y", "n", "yes", "no", "true", "false", "on", "off", "null"})
#: The quoted form of text shorter than this many characters is cached.
_WORD = 30
_JINJA = re.compile(r"\{(?=[{%#])")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", '"': '\\"', "\\": "\\\\"}


class UnwritableError(UsageError):
    """A value can't be written to a chunk file."""


def write(states: Mapping[str, Any]) -> str:
    """Return *states* (state id -> declaration) as the text of a chunk file.

    Raises:
        UnwritableError: a value has no YAML form, is nested too deeply, or a key is too long.
    """
    lines: list[str] = []
    _block(lines, states, 0, 0, "")
    return "".join(f"{line}\n" for line in lines)


def _block(lines: list[str], value: Any, column: int, depth: int, lead: str) -> None:
    """Append the lines of a mapping or list; *lead* is the start of its first line."""
    if depth > DEPTH_LIMIT:
        raise UnwritableError(f"a value is nested deeper than {DEPTH_LIMIT} levels")
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
    # Most values are text, and the check for Mapping is slow.
    if isinstance(value, str):
        return False
    return isinstance(value, (dict, list, tuple, Mapping)) and bool(value)


def _key(key: Any) -> str:
    if not isinstance(key, (str, int)):
        raise UnwritableError(f"a key must be text or an integer, not {type(key).__name__}")
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
    raise UnwritableError(f"a value of type {type(value).__name__} can't be written as YAML")


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # YAML 1.1 requires a point in every float: it reads 1e+16 as text.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def quoted(text: str) -> str:
    """Return *text* as a one-line YAML scalar that every reader reads as exactly this text."""
    return _quoted_word(text) if len(text) < _WORD else _quoted(text)


@lru_cache(maxsize=256)
def _quoted_word(text: str) -> str:
    # Chunk files consist of few words, which repeat in the next file.
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
        raise UnwritableError("text with half a surrogate pair can't be written as UTF-8")
    if number <= 0xFF:
        return f"\\x{number:02X}"
    return f"\\u{number:04X}" if number <= 0xFFFF else f"\\U{number:08X}"

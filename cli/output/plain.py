"""Outputs without layout of their own: json, jsonl, yaml, txt, raw, pprint, quiet."""

from __future__ import annotations

import json as json_library
from json.encoder import encode_basestring as _quoted
from math import isfinite
from typing import Any, Dict, Optional

from catena.cli.output.text import printable, visible
from catena.core.finite import finite

_INDENT = 4
_BLANKS = " " * _INDENT
_WORDS = {True: "true", False: "false", None: "null"}


def _jsonable(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _dumped(value: Any, indent: Optional[int] = None) -> str:
    """Return *value* as JSON that any parser reads, without characters that control a terminal."""
    options: Dict[str, Any] = {"indent": indent, "ensure_ascii": False, "default": _jsonable}
    try:
        text = json_library.dumps(value, allow_nan=False, **options)
    except ValueError:
        text = json_library.dumps(finite(value), **options)
    return _shown(text)


def _shown(text: str) -> str:
    # JSON itself escapes only the control characters below U+0020.
    return text if text.isascii() and "\x7f" not in text else visible(text, "\\u{:04x}")


def document(value: Any) -> str:
    """Return *value* as indented JSON."""
    try:
        return _shown(_indented(value, "\n"))
    except TypeError:
        return _dumped(value, _INDENT)


def _indented(value: Any, margin: str) -> str:
    """Return plain data with the layout of `json.dumps(indent=4)`, which is slow in Python.

    Args:
        value: of the exact types of a function's value; every key is text.
        margin: newline and indentation of the enclosing value.

    Raises:
        TypeError: *value* contains another type.
    """
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is bool or value is None:
        return _WORDS[value]
    if kind is int or (kind is float and isfinite(value)):
        return repr(value)
    inner = f"{margin}{_BLANKS}"
    if kind is dict:
        rows = [
            f"{_quoted(key)}: {_quoted(item) if type(item) is str else _indented(item, inner)}"
            for key, item in value.items()
        ]
        return f"{{{inner}{f',{inner}'.join(rows)}{margin}}}" if rows else "{}"
    if kind is list:
        rows = [_indented(item, inner) for item in value]
        return f"[{inner}{f',{inner}'.join(rows)}{margin}]" if rows else "[]"
    raise TypeError


def json(minion: str, value: Any, colour: bool) -> str:
    """Return {minion: value} as a JSON document."""
    return document({minion: value})


def jsonl(minion: str, value: Any, colour: bool) -> str:
    """Return {minion: value} on one line."""
    return _dumped({minion: value})


def yaml(minion: str, value: Any, colour: bool) -> str:
    """Return {minion: value} as YAML."""
    from catena.renderers.yaml import dump

    return dump({minion: value}).rstrip("\n")


def txt(minion: str, value: Any, colour: bool) -> str:
    """Return `minion: value` for each line of the value, like Salt's txt."""
    text = (
        value if isinstance(value, str) else json_library.dumps(finite(value), default=_jsonable)
    )
    return "\n".join(f"{minion}: {printable(line)}" for line in (text.splitlines() or [""]))


def raw(minion: str, value: Any, colour: bool) -> str:
    """Return {minion: value} as Python writes it, on one line; `repr` escapes control codes."""
    return repr({minion: value})


def pprint(minion: str, value: Any, colour: bool) -> str:
    """Return {minion: value} as Python writes it, on lines of at most 80 columns if possible."""
    from pprint import pformat

    return pformat({minion: value})


def quiet(minion: str, value: Any, colour: bool) -> str:
    """Return nothing."""
    return ""

"""Outputs for programs: json, jsonl, yaml, txt, quiet."""

from __future__ import annotations

import json as json_library
from typing import Any

from catena.cli.output.text import printable


def _jsonable(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def document(value: Any) -> str:
    """Return *value* as indented JSON."""
    return json_library.dumps(value, indent=4, ensure_ascii=False, default=_jsonable)


def json(minion: str, value: Any, colour: bool) -> str:
    """Return {minion: value} as a JSON document."""
    return document({minion: value})


def jsonl(minion: str, value: Any, colour: bool) -> str:
    """Return {minion: value} on one line."""
    return json_library.dumps({minion: value}, ensure_ascii=False, default=_jsonable)


def yaml(minion: str, value: Any, colour: bool) -> str:
    """Return {minion: value} as YAML."""
    from catena.renderers.yaml import dump

    return dump({minion: value}).rstrip("\n")


def txt(minion: str, value: Any, colour: bool) -> str:
    """Return `minion: value` for each line of the value, as Salt's txt."""
    text = value if isinstance(value, str) else json_library.dumps(value, default=_jsonable)
    return "\n".join(f"{minion}: {printable(line)}" for line in (text.splitlines() or [""]))


def quiet(minion: str, value: Any, colour: bool) -> str:
    """Return nothing."""
    return ""

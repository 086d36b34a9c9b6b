"""The renderers json, toml, msgpack and text."""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Any

from catena.core.types import SourceLine
from catena.renderers.source import LineMap, SourceError, SourceLimitError, YamlFaultError

_TOML_LINE = re.compile(r"\(at line (\d+)")


def load_json(text: str, name: str, original: str, line_map: LineMap) -> Any:
    """Return the data of JSON *text*, a rendered form of *original*.

    Raises:
        SourceError: not JSON.
    """
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        line = line_map(getattr(error, "lineno", 0))
        reason = f"not JSON: {said_of(error)}"
        raise SourceError(reason, SourceLine(name, line), original) from None
    except RecursionError:
        # The parser gives no line: use the first one.
        line = line_map(len(text[: -len(text.lstrip())].splitlines()) + 1)
        place = SourceLine(name, line)
        raise SourceLimitError("JSON is nested too deep", place, original) from None


def said_of(error: ValueError) -> str:
    """Return what the parser of JSON says, without its place in the rendered text."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (column {error.colno})"
    return str(error)


def load_toml(text: str, name: str, original: str, line_map: LineMap) -> Any:
    """Return the data of TOML *text* (Python 3.11 and later, or with the package tomli).

    Raises:
        SourceError: not TOML, or this Python has no TOML parser.
    """
    tomllib = _toml_parser()
    if tomllib is None:
        reason = "the toml renderer needs Python 3.11, or the Python package tomli on this host"
        raise SourceError(reason, SourceLine(name), original)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_LINE.search(str(error))
        line = line_map(int(found.group(1))) if found else 0
        raise YamlFaultError(f"not TOML: {error}", SourceLine(name, line), original) from None


def _toml_parser() -> Any:
    """Return the module tomllib or its older equal tomli; None without both."""
    for module in ("tomllib", "tomli"):
        try:
            return import_module(module)
        except ImportError:
            continue
    return None


def load_msgpack(text: str, name: str, original: str, line_map: LineMap) -> Any:
    """Return the data of MessagePack, whose bytes `source.decoded` keeps in *text*.

    Raises:
        SourceError: not one MessagePack value, or this host lacks the package msgpack.
    """
    if not text.strip():
        return None
    place = SourceLine(name, 1)
    try:
        import msgpack
    except ImportError:
        reason = "the msgpack renderer needs the Python package msgpack on this host"
        raise SourceError(reason, place) from None
    try:
        data = text.encode("utf-8", "surrogateescape")
        # The line end behind the #! line is no data.
        data = data[1:] if original.startswith("\n") and data.startswith(b"\n") else data
        return msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise SourceError(f"not MessagePack: {error or type(error).__name__}", place) from None

"""Function results as plain data for JSON and MessagePack, within a size limit.

A result that is too large is not discarded. Its longest texts are shortened, with a note at the
cut, until it fits.
"""

from __future__ import annotations

import json
import marshal
import math
import sys
from collections.abc import Mapping as AbstractMapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from enum import Enum
from typing import Any, Dict, Tuple

from catena.core.frozen import asdict, is_dataclass

DEPTH_LIMIT = 100
#: Size limit of a result that is not sent anywhere.
NO_LIMIT = sys.maxsize
#: Version of marshal's format that writes a repeated object in full each time.
_WITHOUT_REFERENCES = 2
#: Maximum lengths of a text in characters, tried in this order until the result fits.
_CUTS = (256 * 1024, 64 * 1024, 16 * 1024, 4096, 1024, 256)


def is_plain(value: Any, depth: int = 0) -> bool:
    """Return True only if `plain` would change nothing; takes half as long as `plain`.

    Text outside ASCII gives False, because it may hold characters that UTF-8 can't encode.
    """
    kind = type(value)
    if kind is dict and depth < DEPTH_LIMIT:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                return False
            if not (item.isascii() if type(item) is str else is_plain(item, depth + 1)):
                return False
        return True
    if kind is list and depth < DEPTH_LIMIT:
        for item in value:
            if not is_plain(item, depth + 1):
                return False
        return True
    if kind is str:
        return bool(value.isascii())
    if kind is int:
        return bool(-(1 << 63) <= value < 1 << 64)
    return value is None or kind is bool or (kind is float and math.isfinite(value))


def plain(value: Any, depth: int = 0) -> Any:
    """Return *value* as None, bool, int (64 bit), float, str, bytes, list or dict with str keys.

    Sets become sorted lists and records become dicts. Integers beyond 64 bits and values of
    unknown types become their text.
    """
    kind = type(value)
    if kind is str and value.isascii():
        return value  # the most frequent case
    if kind is dict and depth < DEPTH_LIMIT:
        return {
            key if type(key) is str and key.isascii() else _key(key): (
                item if type(item) is str and item.isascii() else plain(item, depth + 1)
            )
            for key, item in value.items()
        }
    if kind is list and depth < DEPTH_LIMIT:
        return [plain(item, depth + 1) for item in value]
    if value is None or isinstance(value, (bool, str, bytes)):
        return _scalar(value)
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 64 else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth >= DEPTH_LIMIT:
        return str(type(value).__name__)
    return _container(value, depth + 1)


def _scalar(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        # UTF-8 can't encode lone surrogates, which stand for undecodable bytes of file names.
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value


def _container(value: Any, depth: int) -> Any:
    if type(value) is not dict and is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, AbstractMapping):
        return {_key(key): plain(item, depth) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((plain(item, depth) for item in value), key=str)
    if isinstance(value, (list, tuple)):
        return [plain(item, depth) for item in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if hasattr(value, "__iter__") and not isinstance(value, type):
        return [plain(item, depth) for item in value]
    return str(value)


def _key(key: Any) -> str:
    return plain(key) if isinstance(key, str) else str(key)


def size_of(value: Any) -> int:
    """Return the approximate size of *value* (plain data) on the wire, in bytes."""
    return len(json.dumps(value, ensure_ascii=False, default=repr).encode("utf-8", "replace"))


def _surely_within(value: Any, limit: int) -> bool:
    """Return True if *value* certainly fits *limit* bytes; quicker than encoding it as JSON.

    One byte of marshal's output becomes at most six bytes of JSON.
    """
    try:
        return len(marshal.dumps(value, _WITHOUT_REFERENCES)) * 6 <= limit
    except ValueError:
        return False


def shorten(value: Any, limit: int) -> Tuple[Any, bool]:
    """Return (*value* of at most about *limit* bytes, whether it was shortened).

    Args:
        value: plain data.
        limit: maximum size in bytes; NO_LIMIT: never shorten.
    """
    if limit == NO_LIMIT or _surely_within(value, limit) or size_of(value) <= limit:
        return value, False
    for longest in _CUTS:
        cut = _cut(value, longest)
        if size_of(cut) <= limit:
            return cut, True
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return _cut(text, max(limit // 4, 64)), True


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, (str, bytes)) and len(value) > longest:
        note = f"\n[… {len(value) - longest} more …]"
        head = value[:longest]
        return head + (note if isinstance(head, str) else note.encode("utf-8"))  # type: ignore[operator]
    if isinstance(value, dict):
        return {key: _cut(item, longest) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, longest) for item in value]
    return value


def json_ready(value: Any) -> Any:
    """Return plain data with bytes decoded to text, for the journal and result files."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, list):
        return [json_ready(item) for item in value]
    return value


def state_ret(ret: Any, limit: int) -> Dict[str, Any]:
    """Return one state's result dict as JSON-ready plain data of at most *limit* bytes."""
    ready = json_ready(plain(ret))
    short, cut = shorten(ready, limit)
    if isinstance(short, dict):
        return short
    kept = {key: ready[key] for key in _SMALL if isinstance(ready, dict) and key in ready}
    return {**kept, "changes": {}, "comment": "[result too large to keep]", "truncated": cut}


_SMALL = ("name", "result", "__sls__", "__run_num__", "__id__", "start_time", "duration")

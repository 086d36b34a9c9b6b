"""The results of a chunk as they lie in a file: JSON, and a checksum in a line of its own.

An older agent reads the JSON alone: the checksum stands in white space behind it, as tabs and
spaces, which JSON allows there.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, Dict, Mapping

from catena.core.errors import CatenaError

_BITS = 32
_MARK = {"0": " ", "1": "\t"}


class ResultsDamagedError(CatenaError):
    """The results of a chunk are not what was written."""


def sealed_results(results: Mapping[str, Any]) -> bytes:
    """Return *results* as JSON with its checksum."""
    body = json.dumps(results, ensure_ascii=True).encode("ascii")
    return body + _checksum(body)


def unsealed_results(path: Path, data: bytes) -> Dict[str, Any]:
    """Return the results that *data* holds; those of an older agent have no checksum.

    Raises:
        ResultsDamagedError: they are not what was written.
    """
    body = data.rstrip(b" \t\n")
    if data not in (body, body + _checksum(body)):
        raise ResultsDamagedError(f"{path}: the checksum of these results does not fit")
    try:
        found: Dict[str, Any] = json.loads(body)
    except ValueError as error:
        raise ResultsDamagedError(f"{path}: {error}") from None
    return found


def _checksum(body: bytes) -> bytes:
    bits = f"{zlib.crc32(body):0{_BITS}b}"
    return ("\n" + "".join(_MARK[bit] for bit in bits) + "\n").encode("ascii")

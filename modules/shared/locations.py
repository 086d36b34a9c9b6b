"""Addresses of files on the master: salt://PATH?saltenv=ENV."""

from __future__ import annotations

from typing import Tuple
from urllib.parse import parse_qs


def split_location(location: str, saltenv: str) -> Tuple[str, str]:
    """Return (path below the root, environment) of salt://PATH?saltenv=ENV."""
    rest = location[len("salt://") :]
    path, mark, query = rest.partition("?")
    if mark and query.startswith("saltenv="):
        return path, parse_qs(query).get("saltenv", [saltenv])[0]
    return rest, saltenv

"""The nearest right name, for every message about a wrong one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Iterable, Optional


def nearest(name: str, candidates: Iterable[str]) -> Optional[str]:
    """Return the candidate that *name* most likely meant, or None."""
    found = get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return found[0] if found else None


def unknown(kind: str, name: str, candidates: Iterable[str]) -> str:
    """Return a sentence that refuses *name* and offers the nearest right one."""
    near = nearest(name, candidates)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"unknown {kind} {name!r}{hint}"

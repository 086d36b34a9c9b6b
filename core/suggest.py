"""The nearest right name, for every message about a wrong one."""

from __future__ import annotations

from typing import Iterable, Optional


def nearest(name: str, candidates: Iterable[str], likeness: float = 0.6) -> Optional[str]:
    """Return the candidate that *name* most likely meant, or None.

    Args:
        name: what was written.
        candidates: the right names.
        likeness: how alike they must be, 0 to 1; at 0.75 only a slip of the fingers is.
    """
    # Only a wrong name pays for it.
    from difflib import get_close_matches

    found = get_close_matches(name, list(candidates), n=1, cutoff=likeness)
    return found[0] if found else None


def unknown(kind: str, name: str, candidates: Iterable[str], few: bool = False) -> str:
    """Return a sentence that refuses *name* and offers the nearest right one.

    Args:
        kind: of what it is a name.
        name: what was written.
        candidates: the right names.
        few: of names so few that all are told where none is near.
    """
    right = list(candidates)
    near = nearest(name, right)
    hint = f"; did you mean {near!r}?" if near else ""
    if few and not near:
        hint = f"; there are {', '.join(right)}"
    return f"unknown {kind} {name!r}{hint}"

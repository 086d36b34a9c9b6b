"""The most similar valid name, for error messages about a wrong one."""

from __future__ import annotations

from typing import Iterable, Optional


def nearest(name: str, candidates: Iterable[str], likeness: float = 0.6) -> Optional[str]:
    """Return the candidate most similar to *name*, or None.

    Args:
        name: the wrong name.
        candidates: the valid names.
        likeness: minimum similarity, 0 to 1; 0.75 accepts only a typing error.
    """
    # Imported here, because only a wrong name needs it.
    from difflib import get_close_matches

    found = get_close_matches(name, list(candidates), n=1, cutoff=likeness)
    return found[0] if found else None


def unknown(kind: str, name: str, candidates: Iterable[str], few: bool = False) -> str:
    """Return a sentence that refuses *name* and suggests the most similar valid one.

    Args:
        kind: what the name is for.
        name: the wrong name.
        candidates: the valid names.
        few: list all valid names if none is similar.
    """
    right = list(candidates)
    near = nearest(name, right)
    hint = f"; did you mean {near!r}?" if near else ""
    if few and not near:
        hint = f"; there are {', '.join(right)}"
    return f"unknown {kind} {name!r}{hint}"


def assigned(name: str) -> str:
    """Return advice for a keyword argument that was meant as a variable of a command, or ""."""
    if not name.isupper():
        return ""
    return (
        f"; {name}=… was read as a keyword argument: a command that sets a variable "
        f"begins with env, as in 'env {name}=value command'"
    )

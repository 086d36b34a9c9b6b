"""What the file states of one run tell each other: managed paths and accumulated texts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Set

from catena.core.context import Context

_PATHS = "catena.states.file.paths"
_TEXTS = "catena.states.file.accumulated"


def keep(context: Context, path: Path) -> None:
    """Note that this run manages *path*, so that no `clean` removes it."""
    context.scratch.setdefault(_PATHS, set()).add(str(path))


def kept(context: Context, required: Sequence[Mapping[str, Any]]) -> Set[str]:
    """Return the paths that a `clean` leaves alone: those of required states of files.

    Args:
        context: the call's context.
        required: low states. A folder is kept with all that lies in it, but what file.recurse
            made one of is kept as far as it manages it.
    """
    managed: Set[str] = context.scratch.get(_PATHS, set())
    found: Set[str] = set()
    for low in required:
        if low.get("state") != "file":
            continue
        name = os.path.normpath(str(low.get("name")))
        found.add(name)
        if low.get("fun") == "recurse":
            found.update(path for path in managed if path.startswith(f"{name}/"))
        else:
            for base, folders, files in os.walk(name):
                found.update(f"{base}/{entry}" for entry in (*folders, *files))
    return found


def accumulate(context: Context, filename: str, name: str, texts: List[Any]) -> bool:
    """Add texts that the template of *filename* sees as accumulator[name]; False: had them."""
    store: Dict[str, Dict[str, List[Any]]] = context.scratch.setdefault(_TEXTS, {})
    have = store.setdefault(filename, {}).setdefault(name, [])
    fresh = [text for text in texts if text not in have]
    have.extend(fresh)
    return bool(fresh)


def accumulated(context: Context, filename: str) -> Dict[str, List[Any]]:
    """Return the texts accumulated for *filename*, by name."""
    store: Dict[str, Dict[str, List[Any]]] = context.scratch.get(_TEXTS, {})
    return store.get(filename, {})

"""Data that the file states of one run share: managed paths, accumulated texts, a writer."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set

from catena.core.context import Context
from catena.modules.file import content

_PATHS = "catena.states.file.paths"
_TEXTS = "catena.states.file.accumulated"
_WRITER = "catena.states.file.writer"

#: Function with the signature of `content.write`: path, bytes, mode.
Writer = Callable[[Path, bytes, Optional[str]], None]


def keep(context: Context, path: Path) -> None:
    """Record that this run manages *path*, so that no `clean` removes it."""
    context.scratch.setdefault(_PATHS, set()).add(str(path))


def kept(context: Context, required: Sequence[Mapping[str, Any]]) -> Set[str]:
    """Return the paths that a `clean` keeps: those of required file states.

    Args:
        context: the call's context.
        required: low states. A folder is kept with its whole contents, but of a folder of
            file.recurse only the files that it manages.
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
    """Add texts to accumulator[name] of *filename*; return False if they were there."""
    store: Dict[str, Dict[str, List[Any]]] = context.scratch.setdefault(_TEXTS, {})
    have = store.setdefault(filename, {}).setdefault(name, [])
    fresh = [text for text in texts if text not in have]
    have.extend(fresh)
    return bool(fresh)


def accumulated(context: Context, filename: str) -> Dict[str, List[Any]]:
    """Return the texts accumulated for *filename*, by name."""
    store: Dict[str, Dict[str, List[Any]]] = context.scratch.get(_TEXTS, {})
    return store.get(filename, {})


@contextmanager
def writing(context: Context, writer: Writer) -> Iterator[None]:
    """Make the states of this run write new contents with *writer* in this block."""
    context.scratch[_WRITER] = writer
    try:
        yield
    finally:
        del context.scratch[_WRITER]


def writer_of(context: Context) -> Writer:
    """Return the current writer of new contents."""
    writer: Writer = context.scratch.get(_WRITER, content.write)
    return writer

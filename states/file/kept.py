"""What the file states of one run tell each other: managed paths, accumulated texts, a writer."""

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

#: Writes a file as `content.write` does: path, bytes, mode.
Writer = Callable[[Path, bytes, Optional[str]], None]


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


@contextmanager
def writing(context: Context, writer: Writer) -> Iterator[None]:
    """Let the states of this run write new contents with *writer* until the block ends."""
    context.scratch[_WRITER] = writer
    try:
        yield
    finally:
        del context.scratch[_WRITER]


def writer_of(context: Context) -> Writer:
    """Return what writes new contents now."""
    writer: Writer = context.scratch.get(_WRITER, content.write)
    return writer

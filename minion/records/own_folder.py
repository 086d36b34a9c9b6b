"""A folder of the agent, made again if something else is in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Tuple

from catena.core.files import private_folder


def own_folder(cache_dir: Path, name: str, lost: str) -> Tuple[Path, bool]:
    """Return the private folder *name* of *cache_dir*, and whether something was in its place.

    A file, link or pipe in its place is moved aside and reported. A missing folder is created.

    Args:
        cache_dir: the agent's cache folder.
        name: the folder's name.
        lost: what is lost with the folder.

    Raises:
        UnsafeFolderError: others may write to it, or it belongs to another user.
        CannotRemoveError: what is in its place cannot be moved.
    """
    path = private_folder(cache_dir) / name
    is_replaced = path.is_symlink() or (path.exists() and not path.is_dir())
    if is_replaced:
        from catena.runtime import damage

        damage.set_aside(cache_dir, path, lost)
    return private_folder(path), is_replaced

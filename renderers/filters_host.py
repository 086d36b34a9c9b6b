"""Salt's filters on the files and users of this host."""

from __future__ import annotations

import hashlib
import os
import posixpath
import pwd
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional


def is_empty_file(path: str) -> bool:
    """Return whether the file exists and is empty."""
    file = Path(path)
    return file.is_file() and file.stat().st_size == 0


def is_text_file(path: str) -> bool:
    """Return whether the file exists and begins with text."""
    found = _beginning(path)
    return found is not None and b"\0" not in found


def is_binary_file(path: str) -> bool:
    """Return whether the file exists and begins with binary data."""
    return b"\0" in (_beginning(path) or b"")


def _beginning(path: str) -> Optional[bytes]:
    try:
        with Path(path).open("rb") as stream:
            return stream.read(8192)
    except OSError:
        return None


def file_hash(path: str, form: str = "sha256") -> str:
    """Return the hash of a file."""
    digest = hashlib.new(form)
    with Path(path).open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def list_files(folder: str) -> List[str]:
    """Return the folder and everything below it, sorted."""
    found = [str(folder)]
    for above, folders, files in os.walk(folder):
        found += [posixpath.join(above, name) for name in (*folders, *files)]
    return sorted(found)


def get_uid(user: Optional[str] = None) -> Optional[int]:
    """Return the uid of a user, or None; without a name that of this process."""
    try:
        return os.geteuid() if user is None else pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def which(name: Optional[str] = None) -> Optional[str]:
    """Return the path of a program, or None."""
    return shutil.which(name) if name else None


def path_join(*parts: str, use_posixpath: bool = True) -> str:
    """Return the parts joined by slashes; a leading slash of a later part has no meaning."""
    first, *rest = (str(part) for part in parts)
    return posixpath.normpath(posixpath.join(first, *(part.lstrip("/") for part in rest)))


#: Filters that do not read the host.
PURE = frozenset(("path_join",))
FILTERS: Dict[str, Callable[..., Any]] = {
    "is_empty": is_empty_file,
    "is_empty_file": is_empty_file,
    "is_text_file": is_text_file,
    "is_bin_file": is_binary_file,
    "file_hashsum": file_hash,
    "list_files": list_files,
    "get_uid": get_uid,
    "which": which,
    "path_join": path_join,
}

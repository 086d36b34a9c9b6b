"""Integrity of custom files: a file that a disk has changed since its sync is not run.

    extmods/<kind>/.sums      SHA-256 of each synced file of the kind (JSON)

Python's cache of compiled code beside them has no checksum; this module adds one.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from importlib.machinery import SourceFileLoader
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from catena.core.digest import hex_of
from catena.core.errors import CatenaError
from catena.core.files import read_limited, write_durable
from catena.runtime.damage import Damage, kind_of, report

SUMS = ".sums"
_SUMS_BYTES = 4 * 1024 * 1024
_CRC_BYTES = 4
#: Maximum number of folders between a file in a package and its kind's folder.
_DEPTH = 8


class CustomFileDamagedError(CatenaError):
    """A custom file differs from the synced one, or is no regular file."""


class CheckedLoader(SourceFileLoader):
    """Loads a custom file after checking it, or its compiled form."""

    def get_data(self, path: str) -> bytes:
        """Return the bytes of source or compiled code.

        Raises:
            OSError: the compiled code is damaged or outdated; Python then uses the source.
            CustomFileDamagedError: the source differs from the synced one, and there is no copy;
                or it is no regular file.
        """
        refuse_special(Path(path))
        data = super().get_data(path)
        if not path.endswith(".pyc"):
            return checked(Path(path), data)
        code, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
        if zlib.crc32(code).to_bytes(_CRC_BYTES, "big") != crc:
            raise OSError(f"{path}: its checksum is missing or does not match")
        return code

    def set_data(self, path: str, data: Any, *, _mode: int = 0o600) -> None:
        """Write compiled code with its checksum."""
        sealed = bytes(data) + zlib.crc32(data).to_bytes(_CRC_BYTES, "big")
        super().set_data(path, sealed, _mode=0o600)


def refuse_special(path: Path) -> None:
    """Refuse a pipe, folder, socket or device in the place of a custom file.

    Reading a pipe would wait for a writer for ever.

    Raises:
        CustomFileDamagedError: *path* or the target of its link is no regular file.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # the attempt to read it reports the error
    if not stat.S_ISREG(mode):
        raise CustomFileDamagedError(
            f"{path}: {kind_of(mode)} is in the place of the file; remove it and run "
            "saltutil.sync_all"
        )


def write_sums(folder: Path, files: Mapping[str, bytes]) -> None:
    """Store the checksums of the files synced into *folder*, if they have changed."""
    sums = {name: hex_of(data) for name, data in sorted(files.items())}
    if _sums(folder) != sums:
        write_durable(folder / SUMS, json.dumps(sums).encode("ascii"))


def checked(path: Path, data: bytes) -> bytes:
    """Return *data* of a custom file, or its synced content from the file cache.

    A file without a checksum (synced by an older agent) is accepted.

    Raises:
        CustomFileDamagedError: it differs from the synced one, and there is no copy.
    """
    folder, digest = _expected(path)
    if not digest or hex_of(data) == digest:
        return data
    cache_dir = folder.parent.parent
    copy = _copy(cache_dir, digest)
    saved = "its content, from the cache of files" if copy is not None else ""
    lost = "nothing" if copy is not None else "this file, until saltutil.sync_all"
    found = Damage(str(path), "it differs from the synced file", saved, lost)
    report(cache_dir, found, data)
    if copy is None:
        raise CustomFileDamagedError(f"{path}: damaged since its sync; run saltutil.sync_all")
    write_durable(path, copy)
    return copy


def _expected(path: Path) -> Tuple[Path, str]:
    """Return the folder of the file's kind, and its checksum; "" if there is none."""
    # Python 3.9 knows no slice of `parents`.
    for folder in islice(path.parents, _DEPTH):
        if os.path.exists(f"{folder}/{SUMS}"):  # noqa: PTH110  # no Path needed
            return folder, _sums(folder).get(path.relative_to(folder).as_posix(), "")
    return path.parent, ""


def _sums(folder: Path) -> Dict[str, str]:
    try:
        found = json.loads(read_limited(folder / SUMS, _SUMS_BYTES))
    except (OSError, ValueError, CatenaError):
        return {}
    return found if isinstance(found, dict) else {}


def _copy(cache_dir: Path, digest: str) -> Optional[bytes]:
    try:
        data = (cache_dir / "files" / "objects" / digest[:2] / digest).read_bytes()
    except OSError:
        return None
    return data if hex_of(data) == digest else None

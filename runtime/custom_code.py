"""Custom files as they were synced: what a disk has changed since is not run.

    extmods/<kind>/.sums      SHA-256 of each synced file of the kind (JSON)

Python's own cache of compiled code lies beside them and has no checksum; here it gets one.
"""

from __future__ import annotations

import json
import os
import zlib
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from catena.core.digest import hex_of
from catena.core.errors import CatenaError
from catena.core.files import read_limited, write_durable
from catena.runtime.damage import Damage, report

SUMS = ".sums"
_SUMS_BYTES = 4 * 1024 * 1024
_CRC_BYTES = 4
#: How far above a file, in a package, its kind's folder may be.
_DEPTH = 8


class CustomFileDamagedError(CatenaError):
    """A custom file is not what was synced."""


class CheckedLoader(SourceFileLoader):
    """Loads a custom file if it, or its compiled form, is what was written."""

    def get_data(self, path: str) -> bytes:
        """Return the bytes of source or compiled code.

        Raises:
            OSError: the compiled code is damaged, or older; Python takes the source then.
            CustomFileDamagedError: the source is not what was synced, nor is a copy here.
        """
        data = super().get_data(path)
        if not path.endswith(".pyc"):
            return checked(Path(path), data)
        code, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
        if zlib.crc32(code).to_bytes(_CRC_BYTES, "big") != crc:
            raise OSError(f"{path}: no checksum, or one that does not fit")
        return code

    def set_data(self, path: str, data: Any, *, _mode: int = 0o600) -> None:
        """Write compiled code with its checksum."""
        sealed = bytes(data) + zlib.crc32(data).to_bytes(_CRC_BYTES, "big")
        super().set_data(path, sealed, _mode=0o600)


def write_sums(folder: Path, files: Mapping[str, bytes]) -> None:
    """Note the checksums of what was synced into *folder*, where they have changed."""
    sums = {name: hex_of(data) for name, data in sorted(files.items())}
    if _sums(folder) != sums:
        write_durable(folder / SUMS, json.dumps(sums).encode("ascii"))


def checked(path: Path, data: bytes) -> bytes:
    """Return *data* of a custom file, or its synced content from the cache of files.

    A file that no sync has noted (of an older agent) passes.

    Raises:
        CustomFileDamagedError: it is not what was synced, nor is a copy here.
    """
    folder, digest = _expected(path)
    if not digest or hex_of(data) == digest:
        return data
    cache_dir = folder.parent.parent
    copy = _copy(cache_dir, digest)
    saved = "its content, from the cache of files" if copy is not None else ""
    lost = "nothing" if copy is not None else "this file, until saltutil.sync_all"
    found = Damage(str(path), "it is not what was synced", saved, lost)
    report(cache_dir, found, data)
    if copy is None:
        raise CustomFileDamagedError(f"{path}: not what was synced; saltutil.sync_all mends it")
    write_durable(path, copy)
    return copy


def _expected(path: Path) -> Tuple[Path, str]:
    """Return the folder of the file's kind, and its checksum; "" where there is none."""
    for folder in path.parents[:_DEPTH]:
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

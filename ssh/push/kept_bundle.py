"""The bundle's hash, and the bundle as it travels, kept from one command to the next.

To put 300 files into an archive, hash and compress it takes longer than all else that a command
does for a host that has it already. The files' sizes and times say whether what is kept is theirs.
"""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from functools import cache
from pathlib import Path

import catena
from catena.core.files import read_limited
from catena.core.logs import logger
from catena.ssh.push.bundle import AnyBundle, Bundle, bundle, files

log = logger(__name__)

_LIMIT = 64 * 1024 * 1024
_SUFFIX = ".bundle"
_HASH_SIZE = 64
_LOCK = threading.Lock()


class KeptBundle(AnyBundle):
    """A bundle of which the hash is known; the rest is read when a host asks for it.

    Args:
        sha256: of the bundle.
        path: the file with it.
    """

    def __init__(self, sha256: str, path: Path) -> None:
        self.sha256 = sha256
        self._path = path

    def supply(self) -> bytes:
        """Return the bundle as it travels."""
        try:
            packed = read_limited(self._path, _LIMIT)[_HASH_SIZE:]
            if hashlib.sha256(zlib.decompress(packed)).hexdigest() == self.sha256:
                return packed
        except (OSError, zlib.error):
            # Removed or torn meanwhile: nothing that could not be made again.
            pass
        self._path.unlink(missing_ok=True)
        return bundle().supply()


def kept_bundle(folder: Path) -> AnyBundle:
    """Return the bundle of this catena, as *folder* keeps it, or made and kept there now."""
    with _LOCK:
        # Many visits begin at once: one makes it, the others wait for it.
        return _found(folder)


@cache
def _found(folder: Path) -> AnyBundle:
    path = folder / f"{_stamp()}{_SUFFIX}"
    try:
        with path.open("rb") as stream:
            sha256 = stream.read(_HASH_SIZE).decode("ascii")
        if len(sha256) == _HASH_SIZE and not set(sha256) - set("0123456789abcdef"):
            return KeptBundle(sha256, path)
    except (OSError, UnicodeDecodeError):
        # Not kept yet.
        pass
    made = bundle()
    try:
        _keep(path, made)
    except OSError:
        # A full disk here is no reason to leave a host alone; the next command makes it again.
        log.debug("the bundle is not kept", exc_info=True)
    return made


def _keep(path: Path, made: Bundle) -> None:
    for old in path.parent.glob(f"*{_SUFFIX}"):
        old.unlink(missing_ok=True)
    # Not brought to the disk: nothing is lost with it.
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(made.sha256.encode("ascii") + made.supply())
    fresh.rename(path)


def _stamp() -> str:
    """Return what changes with any file of the bundle."""
    digest = hashlib.sha256(catena.__version__.encode("utf-8"))
    for name, path in sorted(files()):
        found = os.stat(path)  # noqa: PTH116  # of 300 files: half the time of Path.stat
        digest.update(f"{name} {found.st_size} {found.st_mtime_ns} {found.st_ino}\n".encode())
    return digest.hexdigest()[:32]

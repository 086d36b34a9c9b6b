"""Cache the bundle's hash and the compressed bundle between commands.

Archiving, hashing and compressing 300 files takes longer than all other work for a host that
already has the bundle. The files' sizes and times tell whether the cache is valid.
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
    """A bundle with a known hash; its data is read when a host requests it.

    Args:
        sha256: of the bundle.
        path: file of the compressed bundle.
    """

    def __init__(self, sha256: str, path: Path) -> None:
        self.sha256 = sha256
        self._path = path

    def supply(self) -> bytes:
        """Return the compressed bundle for the transfer."""
        try:
            packed = read_limited(self._path, _LIMIT)[_HASH_SIZE:]
            if hashlib.sha256(zlib.decompress(packed)).hexdigest() == self.sha256:
                return packed
        except (OSError, zlib.error):
            # The file was removed or damaged; build the bundle again.
            pass
        self._path.unlink(missing_ok=True)
        return bundle().supply()


def kept_bundle(folder: Path) -> AnyBundle:
    """Return the bundle of this catena from the cache in *folder*; build it if necessary."""
    with _LOCK:
        # One of several simultaneous visits builds the bundle, the others wait.
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
        # There is no cached bundle yet.
        pass
    made = bundle()
    try:
        _keep(path, made)
    except OSError:
        # The cache is optional: with a full disk, the next command builds the bundle again.
        log.debug("the bundle is not kept", exc_info=True)
    return made


def _keep(path: Path, made: Bundle) -> None:
    for old in path.parent.glob(f"*{_SUFFIX}"):
        old.unlink(missing_ok=True)
    # No fsync: a lost cache does no harm.
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(made.sha256.encode("ascii") + made.supply())
    fresh.rename(path)


def _stamp() -> str:
    """Return a value that changes with any file of the bundle."""
    digest = hashlib.sha256(catena.__version__.encode("utf-8"))
    for name, path in sorted(files()):
        found = os.stat(path)  # noqa: PTH116  # of 300 files: half the time of Path.stat
        digest.update(f"{name} {found.st_size} {found.st_mtime_ns} {found.st_ino}\n".encode())
    return digest.hexdigest()[:32]

"""Pillar and file lists, stored for a chain that may continue without its master.

With `resume: local` a chunk needs its pillar and its SLS when the host has rebooted, although the
master may be unreachable. They are stored from the first chunk to the chain's end, in files that
only root can read. The contents of the files are in the file cache (`runtime.chain_files`).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Mapping, Tuple
from urllib.parse import quote

from catena.core.errors import CatenaError, TryLaterError, UnreachableError
from catena.core.files import is_misplaced, read_limited, write_durable
from catena.core.records import decode, encode
from catena.minion.records.sealed import seal, unseal
from catena.minion.worker.service import SocketService
from catena.runtime.damage import Damage, report, set_aside
from catena.transport import wire
from catena.transport.messages import ManifestReply

_LIMIT = 16 * 1024 * 1024
#: Seconds to wait for the master when a stored pillar is available.
_PATIENCE = 5.0
_LOST = "data of the master for a chain that continues without it: it is requested again"

Reply = Tuple[Dict[str, Any], Tuple[str, ...]]


class KeptPillar(SocketService):
    """A service that remembers the pillar, and the file list of each environment.

    Args:
        run_dir: folder of the daemon's socket.
        path: file for the pillar; the file lists are stored beside it.
        attempts: as SocketService.
    """

    def __init__(self, run_dir: Path, path: Path, attempts: Callable[[], int] = lambda: 0) -> None:
        super().__init__(run_dir, attempts=attempts)
        self._kept = path

    def pillar(self, saltenv: str, pillarenv: str, override: Mapping[str, Any]) -> Reply:
        """Return (pillar, errors) from the master, or the stored pillar if it is unreachable.

        Raises:
            UnreachableError: there is neither a master nor a stored pillar.
        """
        try:
            with self._hurry(self._kept):
                pillar, errors = super().pillar(saltenv, pillarenv, override)
        except (UnreachableError, TryLaterError):
            found = _read(self._kept)
            if found is None:
                raise
            return {**found, **override}, ()
        if not errors and not override:
            _clear(self._kept)
            write_durable(self._kept, seal(wire.pack_body(pillar)))
        return pillar, errors

    def manifest(self, saltenv: str) -> ManifestReply:
        """Return the master's current or last known file list of *saltenv*.

        Raises:
            UnreachableError: there is neither a master nor a stored list.
        """
        path = self._list_of(saltenv)
        try:
            with self._hurry(path):
                reply = super().manifest(saltenv)
        except (UnreachableError, TryLaterError):
            found = _read(path)
            if found is None:
                raise
            return decode(ManifestReply, found)
        _clear(path)
        write_durable(path, seal(wire.pack_body(encode(reply))))
        return reply

    def forget(self) -> None:
        """Delete everything that was stored, because the chain has ended."""
        for path in (self._kept, *self._kept.parent.glob(f"{self._kept.name}.list.*")):
            path.unlink(missing_ok=True)

    def _list_of(self, saltenv: str) -> Path:
        return self._kept.with_name(f"{self._kept.name}.list.{quote(saltenv, safe='')}")

    @contextlib.contextmanager
    def _hurry(self, kept: Path) -> Iterator[None]:
        """Wait less for the master if *kept* can be used instead."""
        patience = self._patience
        if kept.exists():
            self._patience = _PATIENCE
        try:
            yield
        finally:
            self._patience = patience


def _clear(path: Path) -> None:
    """Move a folder aside, which a file can't replace."""
    if is_misplaced(path):
        set_aside(path.parent, path, _LOST)


def _read(path: Path) -> Any:
    """Return the content stored at *path*, or None. Report and remove a damaged file."""
    try:
        data = read_limited(path, _LIMIT)
    except (OSError, CatenaError):
        return None
    with contextlib.suppress(ValueError, CatenaError):
        return _unpacked(unseal(data))
    try:
        # An older agent stored it without a seal.
        return _unpacked(data)
    except CatenaError:
        report(path.parent, Damage(str(path), "its checksum does not match", "", _LOST))
        path.unlink(missing_ok=True)
        return None


def _unpacked(body: bytes) -> Any:
    return wire.unpack_body(body, wire.Limit(_LIMIT, nodes=2_000_000))

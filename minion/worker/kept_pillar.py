"""What a chain that may go on without its master asks of it (`resume: local`): pillar and lists.

Kept in files that only root reads, from the first chunk to the chain's end, because a chunk needs
its pillar and its SLS, and the master may be away when the host comes back from its reboot. The
contents of the listed files are in the cache of files (`runtime.chain_files`).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Mapping, Tuple
from urllib.parse import quote

from catena.core.errors import CatenaError, TryLaterError, UnreachableError
from catena.core.files import read_limited, write_durable
from catena.core.records import decode, encode
from catena.minion.records.sealed import seal, unseal
from catena.minion.worker.service import SocketService
from catena.runtime.damage import Damage, report
from catena.transport import wire
from catena.transport.messages import ManifestReply

_LIMIT = 16 * 1024 * 1024
#: How long the master is waited for where a kept pillar would do.
_PATIENCE = 5.0

Reply = Tuple[Dict[str, Any], Tuple[str, ...]]


class KeptPillar(SocketService):
    """A service that remembers the pillar, and the list of files of each environment.

    Args:
        run_dir: folder of the daemon's socket.
        path: where the pillar is kept; the lists lie beside it.
        attempts: as SocketService.
    """

    def __init__(self, run_dir: Path, path: Path, attempts: Callable[[], int] = lambda: 0) -> None:
        super().__init__(run_dir, attempts=attempts)
        self._kept = path

    def pillar(self, saltenv: str, pillarenv: str, override: Mapping[str, Any]) -> Reply:
        """Return (pillar, errors) from the master; what is kept when it can't be reached.

        Raises:
            UnreachableError: no master, and nothing is kept.
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
            write_durable(self._kept, seal(wire.pack_body(pillar)))
        return pillar, errors

    def manifest(self, saltenv: str) -> ManifestReply:
        """Return what the master has in *saltenv*, or had when it was last asked.

        Raises:
            UnreachableError: no master, and nothing is kept.
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
        write_durable(path, seal(wire.pack_body(encode(reply))))
        return reply

    def forget(self) -> None:
        """The chain has ended: nothing of it is kept."""
        for path in (self._kept, *self._kept.parent.glob(f"{self._kept.name}.list.*")):
            path.unlink(missing_ok=True)

    def _list_of(self, saltenv: str) -> Path:
        return self._kept.with_name(f"{self._kept.name}.list.{quote(saltenv, safe='')}")

    @contextlib.contextmanager
    def _hurry(self, kept: Path) -> Iterator[None]:
        """Wait less for the master where *kept* would do."""
        patience = self._patience
        if kept.exists():
            self._patience = _PATIENCE
        try:
            yield
        finally:
            self._patience = patience


def _read(path: Path) -> Any:
    """Return what is kept at *path*; None without it. A damaged one is reported and removed."""
    try:
        data = read_limited(path, _LIMIT)
    except (OSError, CatenaError):
        return None
    with contextlib.suppress(ValueError, CatenaError):
        return _unpacked(unseal(data))
    try:
        # As an older agent has written it.
        return _unpacked(data)
    except CatenaError:
        lost = "what the master had said for a chain that goes on without it: it is asked again"
        report(path.parent, Damage(str(path), "its checksum does not fit", "", lost))
        path.unlink(missing_ok=True)
        return None


def _unpacked(body: bytes) -> Any:
    return wire.unpack_body(body, wire.Limit(_LIMIT, nodes=2_000_000))

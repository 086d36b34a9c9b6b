"""The pillar of a chain that may go on without its master (`resume: local`).

Kept in a file that only root reads, from the first chunk to the chain's end, because a chunk needs
its pillar and the master may be away when the host comes back from its reboot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

from catena.core.errors import CatenaError, TryLaterError, UnreachableError
from catena.core.files import read_limited, write_durable
from catena.minion.service import SocketService
from catena.transport import wire

_LIMIT = 16 * 1024 * 1024
#: How long the master is waited for where a kept pillar would do.
_PATIENCE = 5.0

Reply = Tuple[Dict[str, Any], Tuple[str, ...]]


class KeptPillar(SocketService):
    """A service that remembers the pillar.

    Args:
        run_dir: folder of the daemon's socket.
        path: where the pillar is kept.
    """

    def __init__(self, run_dir: Path, path: Path) -> None:
        super().__init__(run_dir)
        self._kept = path

    def pillar(self, saltenv: str, pillarenv: str, override: Mapping[str, Any]) -> Reply:
        """Return (pillar, errors) from the master; what is kept when it can't be reached.

        Raises:
            UnreachableError: no master, and nothing is kept.
        """
        patience = self._patience
        if self._kept.exists():
            self._patience = _PATIENCE
        try:
            pillar, errors = super().pillar(saltenv, pillarenv, override)
        except (UnreachableError, TryLaterError):
            found = self._read()
            if found is None:
                raise
            return {**found, **override}, ()
        finally:
            self._patience = patience
        if not errors and not override:
            write_durable(self._kept, wire.pack_body(pillar))
        return pillar, errors

    def forget(self) -> None:
        """The chain has ended: nothing of it is kept."""
        self._kept.unlink(missing_ok=True)

    def _read(self) -> Any:
        try:
            limit = wire.Limit(_LIMIT, nodes=2_000_000)
            return wire.unpack_body(read_limited(self._kept, _LIMIT), limit)
        except (OSError, CatenaError):
            return None

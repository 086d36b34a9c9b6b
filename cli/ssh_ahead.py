"""The first connection to a host, made while the remaining modules are still being loaded."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from catena.core.config.master import MasterSettings
    from catena.ssh.connect.link import Connection, Connector
    from catena.ssh.connect.target import SshTarget


def load(settings: MasterSettings) -> None:
    """Load what every visit needs, including the program that runs on hosts."""
    from catena.ssh.connect import library
    from catena.ssh.connect.cache import cache_of
    from catena.ssh.push import job
    from catena.ssh.push.kept_bundle import kept_bundle

    library.paramiko()
    assert job
    kept_bundle(cache_of(settings))


def _load(settings: MasterSettings) -> None:
    # An error here occurs again where the module is needed, and is reported there.
    with contextlib.suppress(Exception):
        load(settings)


class EagerConnector:
    """A connector that makes its first connection immediately.

    The greeting and login of a host take as long as loading the remaining modules.

    Args:
        connect: makes connections.
        host: the host of the first connection.
        settings: of this master.
        loads: whether to load the remaining modules meanwhile.

    Raises:
        SshError: as *connect*.
    """

    def __init__(
        self, connect: Connector, host: SshTarget, settings: MasterSettings, loads: bool = True
    ) -> None:
        from catena.ssh.connect import library

        self._connect = connect
        # Load first what connecting itself needs.
        library.paramiko()
        if not loads:
            self._first: Optional[Connection] = connect(host)
            return
        loading = threading.Thread(target=_load, args=(settings,), daemon=True)
        loading.start()
        try:
            self._first = connect(host)
        finally:
            loading.join()

    def __call__(self, target: SshTarget) -> Connection:
        """Return the first connection once, then new ones."""
        first, self._first = self._first, None
        return first if first is not None else self._connect(target)

    @property
    def first(self) -> Connection:
        """Return the first connection, which must not have been taken yet."""
        assert self._first is not None
        return self._first

    def close(self) -> None:
        """Close the first connection if it was not taken. Never raises."""
        first, self._first = self._first, None
        if first is not None:
            first.close()

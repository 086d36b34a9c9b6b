"""The first connection to a host, made while what works with it is still being loaded."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from catena.core.config.master import MasterSettings
    from catena.ssh.connect.link import Connection, Connector
    from catena.ssh.connect.target import Target


def load(settings: MasterSettings) -> None:
    """Load what every visit needs, our program for hosts too."""
    from catena.ssh.connect import library
    from catena.ssh.connect.cache import cache_of
    from catena.ssh.push import job
    from catena.ssh.push.kept_bundle import kept_bundle

    library.paramiko()
    assert job
    kept_bundle(cache_of(settings))


def _load(settings: MasterSettings) -> None:
    # What goes wrong here does so again where it is needed, and is told of there.
    with contextlib.suppress(Exception):
        load(settings)


class Ahead:
    """A connector whose first connection is made at once.

    A host takes its time to greet and to log somebody in: as long as it takes to load the rest.

    Args:
        connect: connects.
        host: to whom.
        settings: of this master.
        loads: whether to load the rest, too.

    Raises:
        SshError: as *connect*.
    """

    def __init__(
        self, connect: Connector, host: Target, settings: MasterSettings, loads: bool = True
    ) -> None:
        from catena.ssh.connect import library

        self._connect = connect
        # What connecting needs comes first.
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

    def __call__(self, target: Target) -> Connection:
        """Return the first connection once, then new ones."""
        first, self._first = self._first, None
        return first if first is not None else self._connect(target)

    @property
    def first(self) -> Connection:
        """The first connection, which nobody has taken yet."""
        assert self._first is not None
        return self._first

    def close(self) -> None:
        """End the first connection where nobody took it. Never raises."""
        first, self._first = self._first, None
        if first is not None:
            first.close()

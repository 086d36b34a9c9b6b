"""The first connection to a host, made while what works with it is still being loaded."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from catena.ssh.link import Connection, Connector
    from catena.ssh.target import Target


def load() -> None:
    """Load what every visit needs, our program for hosts too."""
    from catena.ssh import library, push
    from catena.ssh.bundle import bundle

    library.paramiko()
    assert push
    bundle()


class Ahead:
    """A connector whose first connection is made at once.

    A host takes its time to greet and to log somebody in: as long as it takes to load the rest.

    Args:
        connect: connects.
        host: to whom.

    Raises:
        SshError: as *connect*.
    """

    def __init__(self, connect: Connector, host: Target) -> None:
        from catena.ssh import library

        self._connect = connect
        # What connecting needs comes first.
        library.paramiko()
        loading = threading.Thread(target=load, daemon=True)
        loading.start()
        try:
            self._first: Optional[Connection] = connect(host)
        finally:
            loading.join()

    def __call__(self, target: Target) -> Connection:
        """Return the first connection once, then new ones."""
        first, self._first = self._first, None
        return first if first is not None else self._connect(target)

    def close(self) -> None:
        """End the first connection where nobody took it. Never raises."""
        first, self._first = self._first, None
        if first is not None:
            first.close()

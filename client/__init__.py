"""The Python API of the master: connect, ask, follow.

from catena.client import connect
from catena.client.requests import jobs

with connect() as master:
for item in master.follow(jobs.RUN, jobs.RunJob("web*", "test.ping", follow=True)):
print(item)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Optional

from catena.core.config.folders import CONFIG_DIR

if TYPE_CHECKING:
    from catena.client.aio import AsyncMasterClient
    from catena.client.connection import MasterClient
    from catena.core.files import AnyPath


def connect(
    socket: Optional[AnyPath] = None,
    *,
    config_dir: str = CONFIG_DIR,
    timeout: float = 60.0,
    key: str = "",
    tell: Callable[[str], None] = lambda text: None,
) -> MasterClient:
    """Return a client of the master on this host, for one thread.

    In its `with` block it keeps one connection for all requests; outside, each has its own.

    Args:
        socket: the master's unix socket; None: where the master's configuration puts it.
        config_dir: folder of that configuration.
        timeout: seconds for a reply; streams wait without end.
        key: names the requests of this client, in their order: the same requests again under the
            same key change nothing twice. "": a new name.
        tell: called with one line when an answer is lost and when its fate is known.

    Raises:
        ConfigError: the configuration can't be read.
    """
    from catena.client.connection import MasterClient

    return MasterClient(_path(socket, config_dir), timeout, key, tell)


def connect_async(
    socket: Optional[AnyPath] = None,
    *,
    config_dir: str = CONFIG_DIR,
    timeout: float = 60.0,
    key: str = "",
    tell: Callable[[str], None] = lambda text: None,
) -> AsyncMasterClient:
    """Return a client for asyncio; otherwise as `connect`. It may be used by many tasks."""
    from catena.client.aio import AsyncMasterClient

    return AsyncMasterClient(_path(socket, config_dir), timeout, key, tell)


def _path(socket: Optional[AnyPath], config_dir: str) -> AnyPath:
    if socket is not None:
        return socket
    from catena.client.socket_path import master_socket

    return master_socket(config_dir)

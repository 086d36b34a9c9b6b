"""The Python API of the master: connect, send requests, follow streams.

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
        socket: the master's unix socket; None: the one in the master's configuration.
        config_dir: folder of that configuration.
        timeout: seconds for a reply; streams wait without limit.
        key: identifies the requests of this client, in their order. The same requests under the
            same key take effect only once. "": a new key.
        tell: called with one line when an answer is lost, and when it is known whether the
            request took effect.

    Raises:
        ConfigError: the configuration cannot be read.
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
    """Return a client for asyncio; otherwise like `connect`. Many tasks may share it."""
    from catena.client.aio import AsyncMasterClient

    return AsyncMasterClient(_path(socket, config_dir), timeout, key, tell)


def _path(socket: Optional[AnyPath], config_dir: str) -> AnyPath:
    if socket is not None:
        return socket
    from catena.client.socket_path import master_socket

    return master_socket(config_dir)

"""Unix sockets on one host: who is on the other end, and a blocking client. No zmq, no asyncio."""

from __future__ import annotations

import os
import socket
import stat
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, List, Optional

from catena.core.errors import NotAllowedError, PeerError, UnreachableError
from catena.core.files import AnyPath
from catena.transport import wire
from catena.transport.failures import error_of
from catena.transport.framing import FrameReader, frame
from catena.transport.messages import (
    ClientItem,
    ClientReply,
    ClientStop,
    Envelope,
    Failure,
)

_READ_BYTES = 256 * 1024
_CREDENTIALS = struct.Struct("3i")
_PATH_LIMIT = 107


@dataclass(frozen=True)
class LocalPeer:
    """Who is on the other end of a unix socket, as the kernel says."""

    uid: int
    gid: int
    pid: int


def peer_of(connection: socket.socket) -> LocalPeer:
    """Return the peer of a connected unix socket (SO_PEERCRED)."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return LocalPeer(uid, gid, pid)


def listen(path: AnyPath, group: Optional[int] = None, backlog: int = 128) -> socket.socket:
    """Return a non-blocking listening unix socket at *path*.

    The socket is 0600 in a folder of 0700; with *group* (a gid) 0660 in 0750, both of that group.
    A socket file that nobody serves any more is replaced.

    Raises:
        UnreachableError: a living process serves *path* already.
        UnsafeFolderError: the folder is another user's or writable by others.
    """
    raise NotImplementedError


class LocalClient:
    """A blocking client of a master's or a minion's unix socket.

    Not connected before the first request; use it as a context manager or call `close`.

    Args:
        path: the socket.
        receiver: "client" (a command line), or "job" (a job process, with its minion's daemon).
    """

    def __init__(self, path: AnyPath, receiver: str = "client") -> None:
        raise NotImplementedError

    def request(self, message: Any, timeout: Optional[float] = None) -> Any:
        """Send *message* and return the message that answers it (a ClientReply, PillarReply …).

        Args:
            message: ClientRequest, or for a job what `ALLOWED["local", "minion"]` names.
            timeout: seconds for the whole of it; None waits for ever.

        Raises:
            CatenaError: of the class that the Failure names.
            UnreachableError: nobody listens, the connection broke, or the time is up.
            NotAllowedError: this user may not open the socket.
        """
        raise NotImplementedError

    def stream(self, message: Any, timeout: Optional[float] = None) -> Iterator[Any]:
        """Yield the value of each ClientItem, and return when the ClientReply came.

        The reply's value is then in `last_reply`. Leaving the iteration early sends ClientStop.

        Args:
            message: a ClientRequest.
            timeout: longest silence in seconds between two items; None waits for ever.

        Raises:
            As `request`.
        """
        raise NotImplementedError

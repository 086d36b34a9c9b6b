"""The master's unix socket for clients on its own host (asyncio)."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Optional

from catena.core.files import AnyPath
from catena.transport.local import LocalPeer
from catena.transport.messages import Envelope
from catena.transport.wire import ZERO


class LocalConnection:
    """One client. `peer` says who; `send` waits while the client does not read."""

    peer: LocalPeer

    async def send(self, message: Any, reply_to: bytes = ZERO) -> None:
        """Send; waits when 1 MiB is unread.

        Raises:
            UnreachableError: the client is gone.
            MessageTooLargeError, NotPackableError: the message can't travel.
        """
        raise NotImplementedError


#: Runs as a task of its own per ClientRequest; cancelled by ClientStop and when the client goes.
#: A CatenaError that it raises is answered with a Failure.
Handler = Callable[[LocalConnection, Envelope], Awaitable[None]]


class LocalServer:
    """Serves ClientRequest on a unix socket.

    Args:
        path: socket to make; its folder becomes 0700 (0750 with *group*).
        handler: see Handler.
        allow: asked once per connection; False answers NotAllowedError and hangs up.
        group: gid that may connect too.
    """

    def __init__(
        self,
        path: AnyPath,
        handler: Handler,
        allow: Callable[[LocalPeer], bool],
        group: Optional[int] = None,
    ) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Listen."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Hang up on everybody, cancel their requests, remove the socket."""
        raise NotImplementedError

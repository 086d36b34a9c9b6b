"""The master's three ROUTER sockets on an asyncio loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Callable, Optional

from catena.transport.keys import KeyPair
from catena.transport.messages import Envelope
from catena.transport.peers import Endpoints, KeyTable, Peer
from catena.transport.wire import ZERO

#: Called in the loop for each good message. It must not block. A CatenaError that it raises is
#: answered with a Failure. If it returns a future, the message's bytes count against the peer's
#: budget until that future is done; a peer over its budget gets TryLaterError.
OnMessage = Callable[[Peer, Envelope], "Optional[asyncio.Future[Any]]"]


@dataclass(frozen=True)
class GatewaySettings:
    """What a gateway grants each of its peers."""

    #: Unread bytes that one peer may have with us (`peer_budget_kib`).
    peer_budget_bytes: int = 4 * 1024 * 1024


class Gateway:
    """Serves control, bulk and enrol. All methods are called in the loop's thread.

    Args:
        endpoints: where to listen; port 0 takes a free one (see `endpoints` after start).
        keys: the master's key pair (control and bulk; the enrol socket has BOOTSTRAP).
        accepted: live table of accepted keys.
        on_message: see OnMessage. Pings are answered here, and handed over too.
        on_gone: called with each peer whose connection ended.
    """

    endpoints: Endpoints

    def __init__(
        self,
        endpoints: Endpoints,
        keys: KeyPair,
        accepted: KeyTable,
        on_message: OnMessage,
        settings: GatewaySettings = GatewaySettings(),
        on_gone: Optional[Callable[[Peer], None]] = None,
    ) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Bind, and prove that a key that was not accepted is refused.

        Raises:
            SelfTestError: a throw-away key got in, or nobody answered; nothing stays open.
            UnreachableError: an address can't be bound.
        """
        raise NotImplementedError

    def send(
        self,
        peer: Peer,
        message: Any,
        reply_to: bytes = ZERO,
        msg_id: Optional[bytes] = None,
    ) -> bool:
        """Send, without ever blocking. False: the peer is gone, revoked, or its queue is full.

        Raises:
            MessageTooLargeError, NotPackableError: the caller's message can't travel.
        """
        raise NotImplementedError

    async def stop(self) -> None:
        """Close the sockets and end the ZAP thread."""
        raise NotImplementedError

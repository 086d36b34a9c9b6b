"""A master and a minion on loopback, both driven from one asyncio loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import zmq

from catena.transport.agent import AgentLink, LinkConfig, LinkEvent
from catena.transport.gateway import Gateway, GatewaySettings
from catena.transport.keys import KeyPair, generate
from catena.transport.messages import (
    EnrolOffer,
    EnrolProbe,
    EnrolReply,
    EnrolRequest,
    Envelope,
    Hello,
    Welcome,
)
from catena.transport.peers import Endpoints, KeyTable, Peer
from catena.transport.reconnect import ReconnectRules

T = TypeVar("T", bound=Any)

LOOPBACK = Endpoints(*["tcp://127.0.0.1:0"] * 3)
FAST = ReconnectRules(
    first=0.02,
    largest=0.1,
    attempt=3.0,
    broken_spread=0.05,
    herd_spread=0.05,
    ping_interval=0.2,
    key_age_spread=0.0,
)


@dataclass
class Master:
    """A gateway whose program is: offer the key, say what `state` is, welcome everybody."""

    keys: KeyPair
    state: str = "pending"
    offered: str = ""
    welcome: bool = True
    messages: list[tuple[Peer, Envelope]] = field(default_factory=list)
    gone: list[Peer] = field(default_factory=list)
    settings: GatewaySettings = field(default_factory=GatewaySettings)
    #: When minions shall ask again.
    retry_seconds: float = 0.0
    #: Who asked to be accepted, by which message.
    asked: list[tuple[Peer, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = KeyTable()
        self.endpoints = LOOPBACK
        self.offered = self.keys.public

    async def start(self) -> None:
        self.gateway = Gateway(
            self.endpoints,
            self.keys,
            self.table,
            self.on_message,
            self.settings,
            on_gone=self.gone.append,
        )
        await self.gateway.start()
        self.endpoints = self.gateway.endpoints

    def on_message(self, peer: Peer, envelope: Envelope) -> None:
        self.messages.append((peer, envelope))
        message = envelope.message
        if isinstance(message, EnrolProbe):
            self.gateway.send(peer, EnrolOffer(self.offered, "1"), envelope.msg_id)
        elif isinstance(message, EnrolRequest):
            reply = EnrolReply(self.state, "as told", self.offered, self.retry_seconds)
            self.asked.append((peer, envelope.msg_id))
            self.gateway.send(peer, reply, envelope.msg_id)
        elif isinstance(message, Hello) and self.welcome:
            self.gateway.send(peer, Welcome("1", 15), envelope.msg_id)

    def got(self, kind: type[T]) -> list[tuple[Peer, T]]:
        return [(p, e.message) for p, e in self.messages if isinstance(e.message, kind)]

    def only_peer(self, key: KeyPair, socket: str = "control") -> Peer:
        (peer,) = self.gateway.connections(key.fingerprint, socket)
        return peer


@dataclass
class Minion:
    """An agent link with its poll loop."""

    link: AgentLink
    keys: KeyPair
    events: list[LinkEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.poller = zmq.Poller()
        self.link.register(self.poller)

    async def turn(self) -> None:
        wait = min(self.link.timeout(time.monotonic()), 20)
        await asyncio.to_thread(self.poller.poll, wait)
        self.events += self.link.service(time.monotonic())

    async def until(self, happened: Callable[[], Any], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end, f"it did not happen; events: {self.events}"
            await self.turn()

    def seen(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]


def hello(first: bool = True) -> Hello:
    return Hello("m1", "mach1", "boot1", "session1", "1", "minion", first, {}, ())


@asynccontextmanager
async def a_master(**kwargs: Any) -> AsyncIterator[Master]:
    master = Master(generate(), **kwargs)
    await master.start()
    try:
        yield master
    finally:
        await master.gateway.stop()


@asynccontextmanager
async def a_minion(
    master: Master,
    folder: Path,
    *,
    keys: KeyPair | None = None,
    rules: ReconnectRules = FAST,
    **config: Any,
) -> AsyncIterator[Minion]:
    pair = keys or generate()
    settings = LinkConfig(
        "m1", "mach1", "1", "127.0.0.1", str(folder), endpoints=master.endpoints, **config
    )
    link = AgentLink(settings, pair, time.monotonic(), rules)
    try:
        yield Minion(link, pair)
    finally:
        link.close()

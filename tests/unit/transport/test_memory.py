from __future__ import annotations

import pytest

from catena.core.errors import NotAllowedError
from catena.transport.agent import Connected, LinkEvent, Lost, Received
from catena.transport.keys import generate
from catena.transport.memory import MemoryGateway
from catena.transport.messages import (
    Envelope,
    Failure,
    JobReceived,
    Ping,
    Pong,
    Refused,
    Welcome,
)
from catena.transport.peers import KeyTable, Peer


class World:
    def __init__(self) -> None:
        self.table = KeyTable()
        self.got: list[tuple[Peer, Envelope]] = []
        self.gone: list[Peer] = []
        self.gateway = MemoryGateway(self.table, self.on_message, self.gone.append)
        self.key = generate()
        self.link = self.gateway.link(self.key.public)

    def on_message(self, peer: Peer, envelope: Envelope) -> None:
        self.got.append((peer, envelope))
        if isinstance(envelope.message, JobReceived):
            raise NotAllowedError("no such job")

    def received(self, events: list[LinkEvent]) -> list[object]:
        return [event.envelope.message for event in events if isinstance(event, Received)]


def test_minion_connects_in_memory_once_its_key_is_accepted() -> None:
    world = World()
    assert world.link.service(0.0) == []
    assert not world.link.send("control", Ping(1))
    world.table.accept(world.key.public)
    assert world.link.service(1.0) == [Connected()]
    assert world.link.connected


def test_memory_link_passes_messages_through_the_codec_both_ways() -> None:
    world = World()
    world.table.accept(world.key.public)
    world.link.service(0.0)
    assert world.link.send("control", Pong(1))
    assert world.got == []
    assert world.gateway.deliver() == 1
    ((peer, envelope),) = world.got
    assert (peer.user_id, envelope.message) == (world.key.fingerprint, Pong(1))
    assert world.gateway.send(peer, Welcome("1", 15))
    assert world.received(world.link.service(0.0)) == [Welcome("1", 15)]


def test_memory_link_applies_the_rules_of_the_sockets() -> None:
    world = World()
    world.table.accept(world.key.public)
    world.link.service(0.0)
    world.link.send("control", Refused("busy", "", 0.0))
    world.gateway.deliver()
    (failure,) = world.received(world.link.service(0.0))
    assert isinstance(failure, Failure)
    assert "Refused" in failure.message
    world.link.send("control", JobReceived("1", 0))
    world.gateway.deliver()
    assert world.received(world.link.service(0.0)) == [Failure("NotAllowedError", "no such job")]


def test_memory_link_drops_and_duplicates_frames_by_its_fault() -> None:
    world = World()
    world.table.accept(world.key.public)
    world.link.service(0.0)
    world.link.fault = lambda frame: [frame, frame]
    world.link.send("control", Pong(1))
    world.link.fault = lambda frame: []
    world.link.send("control", Pong(2))
    world.gateway.deliver()
    assert [envelope.message for _, envelope in world.got] == [Pong(1), Pong(1)]


def test_cut_memory_link_is_noticed_on_both_sides_and_reconnects() -> None:
    world = World()
    world.table.accept(world.key.public)
    world.link.service(0.0)
    (peer,) = world.gateway.connections(world.key.fingerprint)
    world.gateway.drop(peer)
    assert peer in world.gone
    assert not world.gateway.send(peer, Ping(1))
    world.link.reachable = False
    assert world.link.service(0.0) == [Lost("connection closed")]
    world.link.reachable = True
    assert world.link.service(0.0) == [Connected()]
    assert world.gateway.connections(world.key.fingerprint) != [peer]


def test_revoked_key_neither_sends_nor_receives_in_memory() -> None:
    world = World()
    world.table.accept(world.key.public)
    world.link.service(0.0)
    (peer,) = world.gateway.connections(world.key.fingerprint)
    world.table.revoke(world.key.public)
    world.link.send("control", Pong(1))
    assert world.gateway.deliver() == 0
    assert not world.gateway.send(peer, Ping(1))


@pytest.mark.parametrize("seq", [1, 2])
async def test_pings_are_answered_by_both_sides(seq: int) -> None:
    world = World()
    world.table.accept(world.key.public)
    world.link.service(0.0)
    await world.gateway.start()
    (peer,) = world.gateway.connections(world.key.fingerprint)
    world.gateway.send(peer, Ping(seq))
    assert world.received(world.link.service(0.0)) == []
    assert [envelope.message for _, envelope in world.got] == [Pong(seq)]
    await world.gateway.stop()
    assert world.link.timeout(0.0) == 0

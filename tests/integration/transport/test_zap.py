"""A renewed authentication socket keeps known peers and refuses others."""

from __future__ import annotations

import errno
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import zmq

from catena.transport import gateway as gateway_module
from catena.transport import sockets, wire
from catena.transport.keys import generate
from catena.transport.messages import Ping, Pong
from catena.transport.peers import KeyTable
from catena.transport.zap import ZapThread
from tests.integration.transport.harness import a_master
from tests.integration.transport.raw_peers import Client, Network, answer
from tests.support.waiting import until

QUIET_MS = 10


class Renewing(ZapThread):
    """One that renews its socket soon, and counts."""

    made: Renewing

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], accepted: KeyTable) -> None:
        super().__init__(context, accepted, QUIET_MS)
        self.renewals = 0
        Renewing.made = self

    def _renewed(self, old: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
        new = super()._renewed(old)
        self.renewals += new is not old
        return new


@pytest.fixture(autouse=True)
def renewing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "ZapThread", Renewing)


async def _a_renewal(before: int) -> None:
    await until(lambda: Renewing.made.renewals > before)


async def test_connections_survive_the_renewal_of_the_zap_socket(network: Network) -> None:
    async with a_master() as master:
        found = []
        for _ in range(5):
            before = Renewing.made.renewals
            keys = generate()
            master.table.accept(keys.public)
            found.append(Client(network, keys).dial(master))
            found[-1].send(wire.pack(Ping(1)))
            assert await answer(found[-1]) == Pong(1)
            await _a_renewal(before)
        for sock in found:
            sock.send(wire.pack(Ping(2)))
            assert await answer(sock) == Pong(2)


@pytest.mark.parametrize("name", ["control", "bulk"])
async def test_unauthenticated_peer_is_refused_after_each_renewal(
    network: Network, name: str
) -> None:
    async with a_master() as master:
        for _ in range(3):
            before = Renewing.made.renewals
            sock = Client(network, generate()).dial(master, name)
            watched = sockets.watch(sock, "stranger", zmq.EVENT_ALL)
            seen: list[int] = []

            def refused(watched: zmq.Socket[bytes] = watched, seen: list[int] = seen) -> bool:
                seen += [event.event for event in sockets.monitor_events(watched)]
                return zmq.EVENT_HANDSHAKE_FAILED_AUTH in seen

            try:
                with suppress(zmq.Again):  # refused already: there is nobody to send to
                    sock.send(wire.pack(Ping(1)))
                await until(refused)
            finally:
                sockets.unwatch(sock, watched)
            assert zmq.EVENT_HANDSHAKE_SUCCEEDED not in seen
            await _a_renewal(before)
        assert master.messages == []


async def test_old_zap_socket_stays_in_use_when_renewal_fails(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Any] = []

    async with a_master() as master:
        monkeypatch.setattr(Renewing.made, "_socket", _too_many(tried))
        for number in range(3):
            keys = generate()
            master.table.accept(keys.public)
            sock = Client(network, keys).dial(master)
            sock.send(wire.pack(Ping(number)))
            assert await answer(sock) == Pong(number)
            await until(partial(_as_many, tried, number + 1))


def _as_many(tried: list[Any], wanted: int) -> bool:
    return len(tried) >= wanted


def _too_many(tried: list[Any]) -> Any:
    def refuse() -> None:
        tried.append(None)
        raise zmq.ZMQError(errno.EMFILE)

    return refuse

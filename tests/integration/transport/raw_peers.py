"""Peers of a master without our own I/O, as attackers have them, and ways to it that go wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import zmq

from catena.transport import sockets, wire
from catena.transport.keys import BOOTSTRAP, KeyPair
from tests.integration.transport.harness import Master


class Network:
    """Keeps the sockets of a test, and closes them."""

    def __init__(self) -> None:
        self.context: zmq.Context[Any] = zmq.Context()
        self.sockets: list[zmq.Socket[bytes]] = []

    def close(self) -> None:
        for sock in self.sockets:
            sock.close(linger=0)
        self.context.term()


class Client:
    """A raw DEALER: what an attacker, or a minion's I/O, has."""

    def __init__(self, network: Network, keys: KeyPair) -> None:
        self.network = network
        self.keys = keys

    def dial(
        self, master: Master, name: str = "control", server_key: str = "", **options: bytes
    ) -> zmq.Socket[bytes]:
        known = BOOTSTRAP.public if name == "enrol" else master.keys.public
        sock = sockets.dealer(self.network.context, name, self.keys, server_key or known)
        self.network.sockets.append(sock)
        for option, value in options.items():
            sock.setsockopt(getattr(zmq, option), value)
        sock.connect(master.endpoints.named(name))
        return sock


class Narrow:
    """A TCP way to the master that lets so many bytes through and then holds the rest."""

    def __init__(self, port: int, limit: int) -> None:
        self._target = port
        self._left = limit
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, forth]
        answers = asyncio.create_task(self._copy(back, writer))
        while self._left > 0 and (data := await reader.read(min(65536, self._left))):
            self._left -= len(data)
            forth.write(data)
            await forth.drain()
        await answers

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


async def answer(sock: zmq.Socket[bytes], name: str = "control") -> Any:
    assert await asyncio.to_thread(sock.poll, 3000), "no answer"
    return wire.unpack(sock.recv(), socket=name, receiver="minion").message


async def silence(sock: zmq.Socket[bytes]) -> bool:
    return not await asyncio.to_thread(sock.poll, 300)

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from catena.transport.channel import address_gone
from catena.transport.connections import Connections, bytes_received, cut
from tests.support.waiting import PATIENCE_SECONDS


class Pair:
    """A listening port with clients and what it accepted."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open: list[socket.socket] = [self.listener]

    def connect(self) -> tuple[socket.socket, socket.socket]:
        client = socket.create_connection(("127.0.0.1", self.port))
        server, _ = self.listener.accept()
        client.settimeout(PATIENCE_SECONDS)
        self.open += [client, server]
        return client, server

    def close(self) -> None:
        for sock in self.open:
            sock.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    found = Pair()
    yield found
    found.close()


def test_bytes_received_returns_the_count_of_the_kernel(pair: Pair) -> None:
    client, server = pair.connect()
    assert bytes_received(server.fileno()) == 0
    client.sendall(b"x" * 12_345)
    server.recv(1, socket.MSG_WAITALL)
    server.recv(12_344, socket.MSG_WAITALL)
    assert bytes_received(server.fileno()) == 12_345


def test_descriptor_that_is_not_a_tcp_connection_has_no_count() -> None:
    reading, writing = os.pipe()
    try:
        assert bytes_received(reading) is None
        assert cut(reading, 4605) is False
    finally:
        os.close(reading)
        os.close(writing)
    assert bytes_received(reading) is None
    assert cut(-1, 4605) is False


def test_connection_to_the_port_of_the_master_is_cut(pair: Pair) -> None:
    client, server = pair.connect()
    assert cut(server.fileno(), pair.port)
    assert client.recv(10) == b""


def test_connection_to_another_port_is_not_cut(pair: Pair) -> None:
    client, server = pair.connect()
    assert not cut(server.fileno(), pair.port + 1)
    server.sendall(b"still here")
    assert client.recv(10) == b"still here"


def test_connection_exceeding_the_byte_budget_without_a_message_is_reported(pair: Pair) -> None:
    client, server = pair.connect()
    fd = server.fileno()
    table = Connections(pair.port, budget=1000)
    table.accepted(fd, 0.0)
    client.sendall(b"x" * 900)
    server.recv(900, socket.MSG_WAITALL)
    assert table.check(1.0) == []
    client.sendall(b"x" * 200)
    server.recv(200, socket.MSG_WAITALL)
    assert table.check(2.0) == [fd]
    assert client.recv(10) == b""
    assert len(table) == 0


def test_complete_message_renews_the_byte_budget(pair: Pair) -> None:
    client, server = pair.connect()
    table = Connections(pair.port, budget=1000)
    table.accepted(server.fileno(), 0.0)
    for turn in range(5):
        client.sendall(b"x" * 900)
        server.recv(900, socket.MSG_WAITALL)
        table.message(server.fileno())
        assert table.check(float(turn)) == []


def test_connection_above_the_limit_cuts_the_oldest(pair: Pair) -> None:
    table = Connections(pair.port, budget=1000, capacity=2)
    clients = []
    for _ in range(3):
        client, server = pair.connect()
        clients.append(client)
        table.accepted(server.fileno(), 0.0)
    assert clients[0].recv(10) == b""
    assert len(table) == 2


def test_connection_above_the_time_limit_is_reported(pair: Pair) -> None:
    _, server = pair.connect()
    table = Connections(pair.port, budget=1000, seconds=60)
    table.accepted(server.fileno(), 100.0)
    assert table.check(160.0) == []
    assert table.check(160.1) == [server.fileno()]


def test_closed_connection_is_removed(pair: Pair) -> None:
    _, server = pair.connect()
    table = Connections(pair.port, budget=1000)
    table.accepted(server.fileno(), 0.0)
    assert server.fileno() in table
    table.closed(server.fileno())
    assert server.fileno() not in table
    table.message(server.fileno())
    assert table.check(1.0) == []


def test_address_is_gone_only_when_the_host_does_not_have_it() -> None:
    assert not address_gone(socket.AF_INET, "127.0.0.1")
    assert address_gone(socket.AF_INET, "192.0.2.77")

"""Unread answers of a local connection are kept in order and limited in size."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from catena.minion.link.local_socket import _UNREAD_LIMIT, LocalCaller
from catena.transport import wire
from catena.transport.framing import FrameReader
from catena.transport.messages import ChunkReply


class _Owner:
    """The socket that a connection belongs to."""

    def __init__(self) -> None:
        self.dropped = False
        self.waits = False

    def drop(self, connection: LocalCaller) -> None:
        self.dropped = True
        connection.open = False

    def interest(self, connection: LocalCaller, write: bool) -> None:
        self.waits = write


@pytest.fixture
def pair() -> Any:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def _pieces(theirs: socket.socket, count: int, connection: LocalCaller) -> list[bytes]:
    reader = FrameReader()
    found: list[bytes] = []
    while len(found) < count:
        found += reader.feed(theirs.recv(100_000))
        connection.flush()
    return [wire.unpack(one, socket="local", receiver="job").message.data for one in found]


def test_large_answers_arrive_complete_and_in_order(pair: Any) -> None:
    ours, theirs = pair
    owner: Any = _Owner()
    connection = LocalCaller(owner, ours)
    data = [bytes([number]) * 500_000 for number in range(5)]
    for number, piece in enumerate(data):
        connection.send(ChunkReply("0" * 64, number, piece), wire.ZERO)
    assert owner.waits
    assert _pieces(theirs, 5, connection) == data
    assert not owner.waits and not owner.dropped


def test_client_that_does_not_read_is_dropped_at_the_limit(pair: Any) -> None:
    owner: Any = _Owner()
    connection = LocalCaller(owner, pair[0])
    for number in range(_UNREAD_LIMIT // 500_000 + 2):
        connection.send(ChunkReply("0" * 64, number, bytes(500_000)), wire.ZERO)
    assert owner.dropped

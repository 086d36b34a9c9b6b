"""The limits of time and size of the outgoing HTTP client, against servers that mean harm."""

from __future__ import annotations

import contextlib
import gzip
import re
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from catena.transport.http import HttpRequest
from catena.transport.http_wire import HttpError, HttpLimitError
from tests.integration.transport.http_servers import (
    Hostile,
    client,
    get,
    hostile,
    page,
    redirect,
)


def _drips(head: bytes, drop: bytes) -> Callable[[socket.socket, bytes], None]:
    """Return an answer that sends *drop* again and again, fast enough for every single read."""

    def answer(conn: socket.socket, _request: bytes) -> None:
        conn.sendall(head)
        while not serving[0].over.wait(0.02):
            conn.sendall(drop)

    serving: list[Hostile] = []
    answer.serving = serving  # type: ignore[attr-defined]
    return answer


@contextlib.contextmanager
def _dripping(head: bytes, drop: bytes) -> Iterator[Hostile]:
    answer: Any = _drips(head, drop)
    with hostile(answer) as server:
        answer.serving.append(server)
        yield server


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: 1\r\n"),
    ],
)
def test_slow_response_ends_at_the_total_timeout(head: bytes, drop: bytes) -> None:
    with _dripping(head, drop) as server:
        begun = time.monotonic()
        with pytest.raises(
            (HttpLimitError, HttpError), match=r"not complete within 1 s|valid HTTP"
        ):
            get(server, seconds=1.0)
        assert time.monotonic() - begun < 30


def test_silent_server_ends_at_the_total_timeout() -> None:
    with hostile(lambda _conn, _request: server.over.wait(30)) as server:
        with pytest.raises(HttpLimitError, match="not complete within"):
            get(server, seconds=1.0)


def test_server_that_reads_nothing_ends_at_the_total_timeout() -> None:
    with hostile(lambda _conn, _request: server.over.wait(30)) as server:
        request = HttpRequest(server.url, "PUT", body=bytes(64 * 1024 * 1024))
        with pytest.raises(HttpLimitError, match="not complete within"):
            client(seconds=1.0).send(request)


def test_redirects_share_one_timeout() -> None:
    def answer(conn: socket.socket, _request: bytes) -> None:
        server.over.wait(0.2)
        conn.sendall(redirect("/again"))

    with hostile(answer) as server, pytest.raises(HttpLimitError, match="not complete within"):
        get(server, seconds=0.7, redirects=1000)
    assert len(server.requests) < 6


def _endless(head: bytes, piece: bytes) -> Callable[[socket.socket, bytes], None]:
    def answer(conn: socket.socket, _request: bytes) -> None:
        conn.sendall(head)
        while True:
            conn.sendall(piece)

    return answer


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 65536),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n" * 10_000),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"1;%s\r\na\r\n" % (b"x" * 60_000),
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: 1\r\n" * 10_000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", b"a" * 65536),
        (b"", b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n" * 1000),
    ],
)
def test_endless_response_ends_at_the_size_limit(head: bytes, piece: bytes) -> None:
    with hostile(_endless(head, piece)) as server, pytest.raises(HttpLimitError, match="limit"):
        get(server)


def test_announced_length_above_the_limit_is_refused_before_reading() -> None:
    with hostile(b"HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n") as server:
        expected = f"{server.url}: 100001 bytes exceed the limit of 100000"
        with pytest.raises(HttpLimitError, match=re.escape(expected)):
            get(server)


def test_gzip_bomb_is_stopped_at_the_limit() -> None:
    bomb = gzip.compress(bytes(64 * 1024 * 1024))
    assert len(bomb) < 100_000
    with hostile(page(bomb, "Content-Encoding: gzip")) as server:
        with pytest.raises(HttpLimitError, match="more than the limit of 100000 bytes"):
            get(server)

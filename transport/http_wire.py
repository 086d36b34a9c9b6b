"""One outgoing HTTP exchange at the level of bytes: deadline, sockets, and limits of bodies."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
import zlib
from typing import Any, Callable, Iterator, List, Optional, Protocol, cast

from catena.core.errors import CatenaError, LimitError
from catena.core.frozen import dataclass
from catena.transport.http_addresses import ResolvedAddress

#: Bytes read from a body at a time.
PIECE_BYTES = 64 * 1024
#: Bytes allowed on the wire in addition to the body: status line, headers, trailers.
_HEAD_BYTES = 1024 * 1024
#: Bytes allowed on the wire per byte of body, since a chunk of one byte takes six.
_WIRE_FACTOR = 8
_SEND_BYTES = 64 * 1024


class HttpError(CatenaError):
    """An HTTP request failed."""


class HttpLimitError(LimitError):
    """An HTTP response exceeds a limit."""


class Deadline:
    """The time by which a whole request must be complete.

    Args:
        seconds: counted from now.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._seconds = seconds

    def left(self) -> float:
        """Return the remaining seconds.

        Raises:
            HttpLimitError: the deadline has passed.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise HttpLimitError(f"not complete within {self._seconds:g} s")
        return left


class Limited(io.RawIOBase):
    """Reads from a server until a deadline or a maximum number of bytes.

    Args:
        sock: a connected socket.
        deadline: applies to every read.
        most: maximum number of bytes.
    """

    def __init__(self, sock: socket.socket, deadline: Deadline, most: int) -> None:
        super().__init__()
        self._sock, self._deadline, self._left = sock, deadline, most

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes and return their count; 0 at the end.

        Raises:
            HttpLimitError: the byte limit or the deadline is exceeded.
        """
        self._sock.settimeout(self._deadline.left())
        try:
            count = self._sock.recv_into(buffer)
        except (socket.timeout, TimeoutError):
            self._deadline.left()
            raise
        self._left -= count
        if self._left < 0:
            raise HttpLimitError("the response and its headers exceed the limit")
        return count


class _Readable(Protocol):
    """The part of a socket that `http.client.HTTPResponse` uses."""

    def makefile(self, mode: str) -> Any:
        """Return a file to read from."""


class _Reader:
    def __init__(self, raw: Limited) -> None:
        self._raw = raw

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._raw)


def connect(targets: List[ResolvedAddress], deadline: Deadline, seconds: float) -> socket.socket:
    """Return a connection to the first of *targets* that accepts one.

    Args:
        targets: checked addresses.
        deadline: of the whole request.
        seconds: time limit for one address.

    Raises:
        OSError: no address accepted a connection.
        HttpLimitError: the deadline has passed.
    """
    failure: Optional[OSError] = None
    for target in targets:
        sock = socket.socket(target.family, socket.SOCK_STREAM)
        try:
            sock.settimeout(min(deadline.left(), seconds))
            sock.connect(target.sockaddr)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure or OSError("no address")


def secure(
    sock: socket.socket, context: ssl.SSLContext, host: str, deadline: Deadline
) -> ssl.SSLSocket:
    """Return a TLS connection over *sock* after the handshake; close *sock* on an error."""
    try:
        wrapped = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    except BaseException:
        sock.close()
        raise
    try:
        wrapped.settimeout(deadline.left())
        wrapped.do_handshake()
    except BaseException:
        wrapped.close()
        raise
    return wrapped


def send(sock: socket.socket, data: bytes, deadline: Deadline) -> None:
    """Send *data*; raise at the deadline if the server does not read."""
    for start in range(0, len(data), _SEND_BYTES):
        sock.settimeout(deadline.left())
        sock.sendall(data[start : start + _SEND_BYTES])


def answer_of(
    sock: socket.socket, method: str, deadline: Deadline, max_bytes: int
) -> http.client.HTTPResponse:
    """Read the status and headers of a response; `body_of` reads its body."""
    wire = _HEAD_BYTES + _WIRE_FACTOR * max_bytes
    reader: _Readable = _Reader(Limited(sock, deadline, wire))
    # HTTPResponse calls only makefile() of its socket.
    found = http.client.HTTPResponse(cast("socket.socket", reader), method=method)
    found.begin()
    if found.status < 200:
        raise HttpError(f"the server sent {found.status}, which is not a final status")
    return found


@dataclass(frozen=True)
class _Decoder:
    """Decodes the body, piece by piece."""

    feed: Callable[[bytes], Iterator[bytes]]
    #: Raises HttpError if the body is incomplete.
    finish: Callable[[], None]


def body_of(response: http.client.HTTPResponse, max_bytes: int) -> Iterator[bytes]:
    """Yield the body of a response, decompressed.

    Args:
        response: as returned by `answer_of`.
        max_bytes: limit of the decompressed body.

    Raises:
        HttpLimitError: the body is longer than *max_bytes*.
        HttpError: the body ends early, or has an encoding that was not requested.
    """
    if response.length is not None and response.length > max_bytes:
        raise HttpLimitError(f"{response.length} bytes exceed the limit of {max_bytes}")
    decoder = _decoder(response.getheader("Content-Encoding", "").strip().lower())
    total = 0
    while True:
        piece = response.read(PIECE_BYTES)
        if not piece:
            break
        for part in decoder.feed(piece):
            total += len(part)
            if total > max_bytes:
                raise HttpLimitError(f"more than the limit of {max_bytes} bytes")
            yield part
    if response.length:
        raise HttpError(f"the response ended early; {response.length} bytes are missing")
    decoder.finish()


def _decoder(encoding: str) -> _Decoder:
    if encoding in ("", "identity"):
        return _Decoder(lambda piece: iter((piece,)), lambda: None)
    if encoding not in ("gzip", "x-gzip"):
        raise HttpError(f"the response has an unrequested encoding, {encoding!r}")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def feed(piece: bytes) -> Iterator[bytes]:
        # Decompress in bounded pieces: a small input may expand to gigabytes.
        while piece:
            if inflate.eof:
                raise HttpError("data follows the end of the compressed response")
            out = inflate.decompress(piece, PIECE_BYTES)
            piece = inflate.unconsumed_tail or inflate.unused_data
            if out:
                yield out

    def finish() -> None:
        if not inflate.eof:
            raise HttpError("the compressed response ended early")

    return _Decoder(feed, finish)

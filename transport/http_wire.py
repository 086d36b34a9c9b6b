"""Bytes of one outgoing HTTP exchange: deadline, sockets, and bodies within their limits."""

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
from catena.transport.http_addresses import Target

#: Bytes that are read from a body at a time.
PIECE_BYTES = 64 * 1024
#: Bytes on the wire that a body of no bytes may take: status, headers, trailers.
_HEAD_BYTES = 1024 * 1024
#: Bytes on the wire for each byte of a body: a chunk of one byte takes six.
_WIRE_FACTOR = 8
_SEND_BYTES = 64 * 1024


class HttpError(CatenaError):
    """An HTTP request failed."""


class HttpLimitError(LimitError):
    """An HTTP answer went beyond its limits."""


class Deadline:
    """The moment by which a whole request has to be over.

    Args:
        seconds: from now.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._seconds = seconds

    def left(self) -> float:
        """Return the seconds that are left.

        Raises:
            HttpLimitError: none.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise HttpLimitError(f"not over within {self._seconds:g} s")
        return left


class Limited(io.RawIOBase):
    """What a server sends, within a deadline and a number of bytes.

    Args:
        sock: connected.
        deadline: for everything that is read.
        most: bytes.
    """

    def __init__(self, sock: socket.socket, deadline: Deadline, most: int) -> None:
        super().__init__()
        self._sock, self._deadline, self._left = sock, deadline, most

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes; 0 at the end.

        Raises:
            HttpLimitError: too many bytes, or too late.
        """
        self._sock.settimeout(self._deadline.left())
        try:
            count = self._sock.recv_into(buffer)
        except (socket.timeout, TimeoutError):
            self._deadline.left()
            raise
        self._left -= count
        if self._left < 0:
            raise HttpLimitError("the answer is longer than allowed, with what frames it")
        return count


class _Readable(Protocol):
    """What `http.client.HTTPResponse` asks of a socket."""

    def makefile(self, mode: str) -> Any:
        """Return a file to read from."""


class _Reader:
    def __init__(self, raw: Limited) -> None:
        self._raw = raw

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._raw)


def connect(targets: List[Target], deadline: Deadline, seconds: float) -> socket.socket:
    """Return a connection to the first of *targets* that takes one.

    Args:
        targets: checked addresses.
        deadline: of the whole request.
        seconds: for one address.

    Raises:
        OSError: none of them took it.
        HttpLimitError: too late.
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
    """Return the TLS connection over *sock*, its handshake done; *sock* is closed on an error."""
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
    """Send *data*; a server that takes nothing ends with the deadline."""
    for start in range(0, len(data), _SEND_BYTES):
        sock.settimeout(deadline.left())
        sock.sendall(data[start : start + _SEND_BYTES])


def answer_of(
    sock: socket.socket, method: str, deadline: Deadline, max_bytes: int
) -> http.client.HTTPResponse:
    """Read status and headers of an answer; its body is for `body_of`."""
    wire = _HEAD_BYTES + _WIRE_FACTOR * max_bytes
    reader: _Readable = _Reader(Limited(sock, deadline, wire))
    # The response reads from a file alone, and that is all that it needs a socket for.
    found = http.client.HTTPResponse(cast("socket.socket", reader), method=method)
    found.begin()
    if found.status < 200:
        raise HttpError(f"the server answered {found.status}, which is no end")
    return found


@dataclass(frozen=True)
class _Decoder:
    """Turns pieces of the wire into pieces of the body."""

    feed: Callable[[bytes], Iterator[bytes]]
    #: Raises HttpError when the body ends too early.
    finish: Callable[[], None]


def body_of(response: http.client.HTTPResponse, max_bytes: int) -> Iterator[bytes]:
    """Yield the body of an answer, decompressed.

    Args:
        response: as `answer_of` returned it.
        max_bytes: limit for the body, also when it is compressed on the wire.

    Raises:
        HttpLimitError: longer than *max_bytes*.
        HttpError: it breaks off, or is compressed in a way that nobody asked for.
    """
    if response.length is not None and response.length > max_bytes:
        raise HttpLimitError(f"{response.length} bytes; {max_bytes} are allowed")
    decoder = _decoder(response.getheader("Content-Encoding", "").strip().lower())
    total = 0
    while True:
        piece = response.read(PIECE_BYTES)
        if not piece:
            break
        for part in decoder.feed(piece):
            total += len(part)
            if total > max_bytes:
                raise HttpLimitError(f"more than the {max_bytes} bytes that are allowed")
            yield part
    if response.length:
        raise HttpError(f"the answer broke off; {response.length} bytes are missing")
    decoder.finish()


def _decoder(encoding: str) -> _Decoder:
    if encoding in ("", "identity"):
        return _Decoder(lambda piece: iter((piece,)), lambda: None)
    if encoding not in ("gzip", "x-gzip"):
        raise HttpError(f"the answer is encoded as {encoding!r}, which nobody asked for")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def feed(piece: bytes) -> Iterator[bytes]:
        # Bounded pieces: a small input may stand for gigabytes.
        while piece:
            if inflate.eof:
                raise HttpError("the compressed answer goes on after its end")
            out = inflate.decompress(piece, PIECE_BYTES)
            piece = inflate.unconsumed_tail or inflate.unused_data
            if out:
                yield out

    def finish() -> None:
        if not inflate.eof:
            raise HttpError("the compressed answer broke off")

    return _Decoder(feed, finish)

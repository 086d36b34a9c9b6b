"""The thread that answers libzmq's question "may this key connect?" (ZAP, RFC 27).

It only looks into a dict: while it answers one request, no other connection of the process can be
authenticated.

libzmq sends the requests through a pipe per connection. Its queues (two of 16 KB) stay until
the connection ends or the answering socket is closed. A connection asks once, so the thread
replaces its socket after a quiet time: that frees the pipes and does not affect the connections.
"""

from __future__ import annotations

import logging
import threading
from typing import Dict, List, Optional, Tuple

import zmq

from catena.transport.keys import KEY_BYTES, fingerprint, key_text
from catena.transport.peers import KeyTable
from catena.transport.sockets import ZAP_DOMAIN

ADDRESS = "inproc://zeromq.zap.01"
#: Message property that holds the public key which the client has proved.
KEY_PROPERTY = "X-Key"
#: Milliseconds without a request after which the socket is replaced. A client that connects in the
#: microseconds between the two sockets is refused and tries again.
QUIET_MS = 1000

log = logging.getLogger(__name__)


def decide(domain: bytes, raw_key: bytes, accepted: KeyTable) -> Tuple[bytes, str, str]:
    """Return (status, user id, key as Z85) for a client's 32-byte key in a domain.

    Status "200" admits the client. Control and bulk require an accepted key; enrol admits any key.
    An unknown domain or a credential of another length is refused.
    """
    if len(raw_key) != KEY_BYTES:
        return b"400", "", ""
    if domain == ZAP_DOMAIN["enrol"]:
        key = key_text(raw_key)
        return b"200", fingerprint(key), key
    if domain in (ZAP_DOMAIN["control"], ZAP_DOMAIN["bulk"]):
        user_id = accepted.user_id_of(raw_key)
        if user_id is not None:
            return b"200", user_id, key_text(raw_key)
    return b"400", "", ""


def metadata(properties: Dict[str, str]) -> bytes:
    """Return properties in ZMTP's format: name with length byte, value with 4-byte length."""
    out = bytearray()
    for name, value in properties.items():
        out += bytes([len(name)]) + name.encode() + len(value).to_bytes(4, "big") + value.encode()
    return bytes(out)


class ZapThread:
    """Answers the requests of one context, from `start` until the context is terminated.

    Start it before any socket is bound.

    Args:
        context: the context whose sockets ask.
        accepted: see `decide`.
        quiet_ms: see QUIET_MS.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        accepted: KeyTable,
        quiet_ms: int = QUIET_MS,
    ) -> None:
        self._context = context
        self._accepted = accepted
        self._quiet_ms = quiet_ms
        self._ready = threading.Event()
        self._fault: Optional[zmq.ZMQError] = None
        self._thread = threading.Thread(target=self._run, name="catena-zap", daemon=True)

    def start(self) -> None:
        """Start the thread; return once it answers requests."""
        self._thread.start()
        self._ready.wait()
        if self._fault is not None:
            raise self._fault

    def join(self) -> None:
        """Wait for the thread to end, after the context was terminated."""
        self._thread.join()

    def _run(self) -> None:
        sock = self._socket()
        try:
            sock.bind(ADDRESS)
        except zmq.ZMQError as error:
            self._fault = error
            sock.close()
            self._ready.set()
            return
        self._ready.set()
        try:
            while True:
                self._serve(sock)
                sock = self._renewed(sock)
        except zmq.ContextTerminated:
            log.debug("ends because its context was terminated")
        finally:
            sock.close(linger=0)

    def _socket(self) -> zmq.Socket[bytes]:
        sock = self._context.socket(zmq.REP)
        sock.setsockopt(zmq.LINGER, 0)
        return sock

    def _serve(self, sock: zmq.Socket[bytes]) -> None:
        """Answer requests until none has come for `quiet_ms`; wait for the first without limit."""
        wait = None
        while sock.poll(wait):
            sock.send_multipart(self._answer(sock.recv_multipart()))
            wait = self._quiet_ms

    def _renewed(self, old: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
        """Return a socket that replaces *old*; close *old*, which frees its pipes."""
        try:
            new = self._socket()
        except zmq.ContextTerminated:
            raise
        except zmq.ZMQError as error:
            log.warning("cannot open a new socket; keeps the old one: %s", error)
            return old
        try:
            old.unbind(ADDRESS)
            new.bind(ADDRESS)
            while old.poll(0):
                old.send_multipart(self._answer(old.recv_multipart()))
        except BaseException:
            new.close(linger=0)  # an open socket would block the termination of its context
            raise
        old.close(linger=0)
        return new

    def _answer(self, request: List[bytes]) -> List[bytes]:
        # The fields, sent by libzmq: version, request id, domain, address, identity, mechanism,
        # key.
        request_id = request[1]
        if len(request) != 7 or request[5] != b"CURVE":
            return [b"1.0", request_id, b"400", b"CURVE only", b"", b""]
        status, user_id, key = decide(request[2], request[6], self._accepted)
        if status != b"200":
            return [b"1.0", request_id, status, b"key is not accepted", b"", b""]
        properties = metadata({KEY_PROPERTY: key})
        return [b"1.0", request_id, status, b"", user_id.encode(), properties]

"""A check at each start that a key which is not accepted is refused.

A libzmq that was built or configured wrongly admits every client without an error, so the master
tries it.
"""

from __future__ import annotations

import time

import zmq

from catena.core.errors import CatenaError
from catena.transport.keys import generate
from catena.transport.sockets import (
    Family,
    dealer,
    family,
    monitor_events,
    unwatch,
    use_ipv6,
    watch,
)

_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)


class SelfTestError(CatenaError):
    """The sockets of this master do not provably refuse an unaccepted key."""


def reachable(endpoint: str) -> str:
    """Return the address at which this host can connect to its own *endpoint*."""
    for every, loopback in (("//0.0.0.0:", "//127.0.0.1:"), ("//*:", "//127.0.0.1:")):
        endpoint = endpoint.replace(every, loopback)
    return endpoint.replace("//[::]:", "//[::1]:")


def refuses_strangers(name: str, endpoint: str, server_key: str, seconds: float = 5.0) -> None:
    """Return once *endpoint* has refused a throw-away key; block for at most *seconds*.

    Raises:
        SelfTestError: the key was admitted, or the result is unclear. The master must not serve.
    """
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
    sock = dealer(context, name, generate(), server_key)
    pair = watch(sock, f"selftest.{name}", _EVENTS)
    try:
        if family(endpoint) is Family.ipv6:
            use_ipv6(sock)
        sock.connect(reachable(endpoint))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pair.poll(max(1, int((end - time.monotonic()) * 1000)))
            for event in monitor_events(pair):
                if event.event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                    return
                if event.event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                    raise SelfTestError(f"{endpoint} admitted a key that was never accepted")
                raise SelfTestError(f"{endpoint}: handshake failed, but not due to the key")
        raise SelfTestError(f"{endpoint}: no answer to a throw-away key within {seconds:g} s")
    finally:
        unwatch(sock, pair)
        sock.close(linger=0)
        context.term()

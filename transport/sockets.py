"""Options of every ZeroMQ socket, as data, with reasons where they are not obvious.

Each value answers an attack or a failure that was tried against libzmq 4.3.5.
"""

from __future__ import annotations

import os
import struct
from enum import Enum
from typing import Iterator, Mapping, NamedTuple, Tuple

from catena.core.errors import CatenaError
from catena.transport.keys import BOOTSTRAP, KeyPair
from catena.transport.wire import KIB, MIB
from catena.transport.zeromq import zmq

#: Oldest accepted libzmq: 4.3.2 and 4.3.3 fixed holes that an unauthenticated peer can exploit.
#: The master and the minion do not start with an older one.
LIBZMQ_FLOOR = (4, 3, 4)

CONNECT_SECONDS = 10


class OldLibzmqError(CatenaError):
    """The libzmq of this host is too old, or was built without CURVE."""


def require_libzmq(found: Tuple[int, ...] = zmq.zmq_version_info()) -> None:
    """Raise OldLibzmqError unless this libzmq is safe to use on a network."""
    if found < LIBZMQ_FLOOR:
        shown = ".".join(map(str, found))
        raise OldLibzmqError(
            f"libzmq {shown} has known security holes; install pyzmq with libzmq >= 4.3.4"
        )
    if not zmq.has("curve"):
        raise OldLibzmqError("this libzmq was built without CURVE; install the pyzmq wheel")


_SERVER: Mapping[int, int] = {
    zmq.CURVE_SERVER: 1,
    # Without it libzmq admits every key if the ZAP handler is missing, with or without a domain.
    zmq.ZAP_ENFORCE_DOMAIN: 1,
    # Without it a send to a dead or stopped peer appears to succeed and loses the message.
    zmq.ROUTER_MANDATORY: 1,
    # With 1, a client that chose another client's routing id would take over its messages.
    zmq.ROUTER_HANDOVER: 0,
    zmq.SNDTIMEO: 0,
    zmq.HEARTBEAT_IVL: 15_000,
    zmq.HEARTBEAT_TIMEOUT: 45_000,
    zmq.HEARTBEAT_TTL: 60_000,
    zmq.BACKLOG: 1024,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 60,
    zmq.LINGER: 0,
    zmq.IMMEDIATE: 0,
}

SERVER_OPTIONS: Mapping[str, Mapping[int, int]] = {
    "control": {
        **_SERVER,
        zmq.MAXMSGSIZE: MIB,
        zmq.RCVHWM: 64,
        zmq.SNDHWM: 256,
        zmq.HANDSHAKE_IVL: 3000,
    },
    "bulk": {
        **_SERVER,
        zmq.MAXMSGSIZE: 2 * MIB,
        zmq.RCVHWM: 8,
        # At most 16 MiB of file pieces for an agent that does not read. libzmq drops an answer for
        # which the queue is full, and reports free capacity only in steps of half a queue;
        # therefore an agent has to limit its own outstanding requests.
        zmq.SNDHWM: 8,
        zmq.HANDSHAKE_IVL: 3000,
    },
    "enrol": {
        **_SERVER,
        zmq.MAXMSGSIZE: 4 * KIB,
        zmq.RCVHWM: 16,
        zmq.SNDHWM: 16,
        zmq.HANDSHAKE_IVL: 2000,
    },
}

#: Reconnecting by libzmq is off (-1): the link decides when, with jitter, new names and new keys.
_CLIENT: Mapping[int, int] = {
    zmq.RECONNECT_IVL: -1,
    zmq.CONNECT_TIMEOUT: CONNECT_SECONDS * 1000,
    zmq.HANDSHAKE_IVL: 10_000,
    zmq.HEARTBEAT_IVL: 15_000,
    zmq.HEARTBEAT_TIMEOUT: 45_000,
    zmq.HEARTBEAT_TTL: 60_000,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 60,
    zmq.SNDTIMEO: 0,
    zmq.LINGER: 0,
}

CLIENT_OPTIONS: Mapping[str, Mapping[int, int]] = {
    "control": {**_CLIENT, zmq.MAXMSGSIZE: 2 * MIB, zmq.SNDHWM: 1000, zmq.RCVHWM: 256},
    "bulk": {**_CLIENT, zmq.MAXMSGSIZE: 4 * MIB, zmq.SNDHWM: 64, zmq.RCVHWM: 16},
    "enrol": {**_CLIENT, zmq.MAXMSGSIZE: 4 * KIB, zmq.SNDHWM: 4, zmq.RCVHWM: 4},
}

ZAP_DOMAIN: Mapping[str, bytes] = {
    "control": b"catena.control",
    "bulk": b"catena.bulk",
    "enrol": b"catena.enrol",
}


def router(context: zmq.Context[zmq.Socket[bytes]], name: str, keys: KeyPair) -> zmq.Socket[bytes]:
    """Return the master's socket *name* with every option set, not yet bound."""
    pair = BOOTSTRAP if name == "enrol" else keys
    sock = context.socket(zmq.ROUTER)
    _apply(sock, SERVER_OPTIONS[name])
    sock.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN[name])
    sock.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode())
    sock.setsockopt(zmq.CURVE_PUBLICKEY, pair.public.encode())
    return sock


def dealer(
    context: zmq.Context[zmq.Socket[bytes]], name: str, keys: KeyPair, server_key: str
) -> zmq.Socket[bytes]:
    """Return the minion's socket *name* with every option set, not yet connected."""
    sock = context.socket(zmq.DEALER)
    _apply(sock, CLIENT_OPTIONS[name])
    sock.setsockopt(zmq.CURVE_SERVERKEY, server_key.encode())
    sock.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
    sock.setsockopt(zmq.CURVE_PUBLICKEY, keys.public.encode())
    return sock


class Family(str, Enum):
    """What kind of address an endpoint has."""

    ipv4 = "ipv4"
    ipv6 = "ipv6"
    #: A host name, which may have IPv4 addresses, IPv6 addresses or both.
    name = "name"


def family(endpoint: str) -> Family:
    """Return the kind of the address "tcp://host:port"."""
    if endpoint.startswith("tcp://["):
        return Family.ipv6
    host = endpoint[len("tcp://") :].rpartition(":")[0]
    return Family.ipv4 if host == "*" or host.replace(".", "").isdigit() else Family.name


def use_ipv6(sock: zmq.Socket[bytes]) -> None:
    """Enable IPv6 on *sock*. A name with an IPv6 address is then reached through IPv6 only."""
    sock.setsockopt(zmq.IPV6, 1)


def _apply(sock: zmq.Socket[bytes], options: Mapping[int, int]) -> None:
    for option, value in options.items():
        sock.setsockopt(option, value)


class MonitorEvent(NamedTuple):
    """An event of a socket's connection."""

    event: int
    #: File descriptor, errno or ZAP status, depending on the event.
    value: int


_EVENT = struct.Struct("=hi")
# Plain integers, because combining enumeration members is slow.
_STATE, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)


def watch(sock: zmq.Socket[bytes], name: str, events: int) -> zmq.Socket[bytes]:
    """Return a PAIR socket on which *events* of *sock* arrive; read it in the same thread."""
    # A fresh address each time: that of a socket just closed stays in use for a moment.
    address = f"inproc://watch.{name}.{os.urandom(8).hex()}"
    sock.monitor(address, events)
    pair: zmq.Socket[bytes] = sock.context.socket(zmq.PAIR)
    pair.setsockopt(zmq.LINGER, 0)
    pair.connect(address)
    return pair


def unwatch(sock: zmq.Socket[bytes], pair: zmq.Socket[bytes]) -> None:
    """Stop what `watch` started."""
    sock.disable_monitor()
    pair.close(linger=0)


def monitor_events(pair: zmq.Socket[bytes]) -> Iterator[MonitorEvent]:
    """Yield the events that have arrived, without waiting."""
    while readable(pair):
        yield MonitorEvent(*_EVENT.unpack(pair.recv_multipart(zmq.NOBLOCK)[0]))


def readable(sock: zmq.Socket[bytes]) -> bool:
    """Return whether a message can be received at once.

    This call costs a third of a failed receive, and usually at most one message is waiting.
    """
    state = sock.getsockopt(_STATE)
    return isinstance(state, int) and bool(state & _READABLE)

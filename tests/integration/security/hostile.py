"""A minion that breaks every rule: a true key, and the wire spoken by hand.

It uses the codec and raw DEALER sockets against a real master, so that nothing of the agent's good
manners stands between an attack and the master.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import zmq
from fleet import Fleet

from catena.client.connection import MasterClient
from catena.client.requests import chains, events, keys
from catena.client.requests.chains import ChainCreate
from catena.client.requests.contract import AnyAsk
from catena.client.requests.events import EventSend, EventWatch
from catena.client.requests.keys import KeyChange
from catena.core.job import JobReturn
from catena.transport import sockets, wire
from catena.transport.keys import BOOTSTRAP, KeyPair, generate
from catena.transport.messages import (
    EnrolProbe,
    EnrolReply,
    EnrolRequest,
    Envelope,
    Hello,
    Ping,
    Pong,
    Welcome,
)
from catena.transport.peers import Endpoints

T = TypeVar("T")
PATIENCE_SECONDS = 60.0
#: Long enough for a message that must not come, on a master that has answered a later one.
QUIET_SECONDS = 0.3


class SilenceError(AssertionError):
    """The master did not answer."""


class Site:
    """The master under attack, as its operator and as the network see it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.home = fleet.folder / "master"
        self.endpoints = Endpoints.of("127.0.0.1", fleet.port)
        self.socket = self.home / "run/catena/master/master.sock"
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._minions: list[Hostile] = []

    @property
    def key(self) -> str:
        return (self.home / "etc/catena/pki/master/curve.pub").read_text().strip()

    @property
    def log(self) -> str:
        return (self.fleet.folder / "master.log").read_text(errors="replace")

    def ask(self, ask: AnyAsk, record: Any = None) -> Any:
        return MasterClient(self.socket).request(ask, record)

    def events(self, tag: str, seconds: float = PATIENCE_SECONDS) -> Iterator[dict[str, Any]]:
        """Yield every stored event whose tag matches, then wait for more."""
        watch = EventWatch(tag=tag, after=0)
        yield from MasterClient(self.socket).stream(events.WATCH, watch, seconds)

    def all_events(self, tag: str = "*") -> list[dict[str, Any]]:
        """Return the events up to now: an event of our own marks the end."""
        mark = self.ask(events.SEND, EventSend(tag="end/of/look"))["seq"]
        found = []
        for event in self.events("*"):
            if event["seq"] == mark:
                break
            found.append(event)
        return [event for event in found if fnmatchcase(event["tag"], tag)]

    def keys(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = self.ask(keys.LIST)
        return found

    def decide(self, action: str, name: str) -> list[str]:
        found: list[str] = self.ask(keys.CHANGE, KeyChange(action, name))["changed"]
        return found

    def stranger(self, name: str, pair: KeyPair | None = None) -> Hostile:
        minion = Hostile(self, name, pair)
        self._minions.append(minion)
        return minion

    def minion(self, name: str) -> Hostile:
        """Return a minion whose key was accepted and whose Hello was taken."""
        minion = self.stranger(name)
        assert isinstance(self.admit(minion), Welcome)
        return minion

    def admit(self, minion: Hostile) -> Any:
        """Accept a stranger's key; return what its Hello is answered."""
        assert minion.enrol().state == "pending"
        assert self.decide("accept", minion.name) == [minion.name]
        return minion.ask(minion.hello())

    def memory_kib(self) -> int:
        """Return the resident memory of the master's process."""
        master = self.fleet._master
        assert master is not None
        text = Path(f"/proc/{master.pid}/status").read_text()
        return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1])

    def close(self) -> None:
        for minion in self._minions:
            minion.close()
        # Also what a test left open: the end of a context waits for its sockets without limit.
        self.context.destroy(linger=0)


def schedule(site: Site, label: str, target: str, command: str) -> int:
    """Let a chain of one command begin now; return its id."""
    ask = site.ask
    number: int = ask(chains.CREATE, ChainCreate(label))["id"]
    site.fleet.catena("chain", "add", label, "-L", "-t", target, "--cmd", command)
    site.fleet.catena("chain", "schedule", label, "--at", "now")
    return number


class Hostile:
    """One key pair and its three sockets."""

    def __init__(self, site: Site, name: str, pair: KeyPair | None = None) -> None:
        self.site = site
        self.name = name
        self.pair = pair or generate()
        self.address = "127.0.0.1"
        self.heard: dict[str, list[Envelope]] = {}
        self._sockets: dict[str, zmq.Socket[bytes]] = {}

    def hello(self, **changes: Any) -> Hello:
        base = Hello(
            self.name, f"machine-{self.name}", "boot-1", f"session-{self.name}", "1", "minion",
            True, {"id": self.name}, (),
        )  # fmt: skip
        return replace(base, **changes)

    def ret(self, jid: str, fun: str = "test.ping", value: Any = True, **more: Any) -> JobReturn:
        now = time.time()
        return JobReturn(jid, fun, (), True, 0, value, now, 0.1, **more)

    def socket(self, name: str) -> zmq.Socket[bytes]:
        if name not in self._sockets:
            server = BOOTSTRAP.public if name == "enrol" else self.site.key
            sock = sockets.dealer(self.site.context, name, self.pair, server)
            # What the master does with it is the question, not what we would refuse to send.
            sock.setsockopt(zmq.MAXMSGSIZE, -1)
            # From an address of its own, so that limits per address are not the other tests'.
            where = self.site.endpoints.named(name).removeprefix("tcp://")
            sock.connect(f"tcp://{self.address}:0;{where}")
            self._sockets[name] = sock
        return self._sockets[name]

    def raw(self, *frames: bytes, socket: str = "control") -> None:
        """Send frames as they are; wait until they have left, as a blocking peer would."""
        sock = self.socket(socket)
        assert sock.poll(int(PATIENCE_SECONDS * 1000), zmq.POLLOUT), "the master takes nothing"
        sock.send_multipart(frames, zmq.NOBLOCK)

    def say(self, message: Any, socket: str = "control") -> bytes:
        msg_id = wire.new_id()
        self.raw(wire.pack(message, msg_id=msg_id), socket=socket)
        return msg_id

    def ask(self, message: Any, socket: str = "control", seconds: float = PATIENCE_SECONDS) -> Any:
        """Return what answers *message*; raises SilenceError when nothing does."""
        return self.answer(self.say(message, socket), socket, seconds)

    def answer(
        self, msg_id: bytes, socket: str = "control", seconds: float = PATIENCE_SECONDS
    ) -> Any:
        """Return what answers the message of that id."""
        return self.until(lambda env: env.reply_to == msg_id, socket, seconds).message

    def receive(self, kind: type[T], seconds: float = PATIENCE_SECONDS) -> T:
        """Return the next message of a kind on control."""
        found: T = self.until(lambda e: isinstance(e.message, kind), "control", seconds).message
        return found

    def until(self, wanted: Callable[[Envelope], bool], socket: str, seconds: float) -> Envelope:
        """Return the first message that is *wanted*; the others wait for who wants them."""
        kept = self.heard.setdefault(socket, [])
        for index, envelope in enumerate(kept):
            if wanted(envelope):
                return kept.pop(index)
        sock = self.socket(socket)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.001 and sock.poll(int(left * 1000), zmq.POLLIN):
            envelope = wire.unpack(sock.recv(), socket=socket, receiver="minion")
            if isinstance(envelope.message, Ping):
                self.raw(wire.pack(Pong(envelope.message.seq), reply_to=envelope.msg_id))
            elif wanted(envelope):
                return envelope
            else:
                kept.append(envelope)
        raise SilenceError(f"{self.name}: nothing on {socket} in {seconds} s")

    def hears_nothing(self, socket: str = "control", seconds: float = QUIET_SECONDS) -> bool:
        return not self.socket(socket).poll(int(seconds * 1000), zmq.POLLIN)

    def ping(self) -> None:
        """Have a ping answered; everything that was sent before has been looked at then."""
        assert isinstance(self.ask(Ping(1)), Pong)

    def is_deaf(self) -> bool:
        """Return whether the master does not answer a ping; may be wrong where it is slow."""
        try:
            self.ask(Ping(1), seconds=QUIET_SECONDS)
        except SilenceError:
            return True
        return False

    def enrol(self, **fields: str) -> EnrolReply:
        asked = EnrolRequest(self.name, f"machine-{self.name}", "1")
        reply: EnrolReply = self.ask(replace(asked, **fields), "enrol")
        return reply

    def probe(self) -> Any:
        return self.ask(EnrolProbe(), "enrol")

    def drop(self, name: str) -> None:
        sock = self._sockets.pop(name, None)
        if sock is not None:
            sock.close(linger=0)

    def close(self) -> None:
        for name in list(self._sockets):
            self.drop(name)

"""One process of simulated minions: their sockets, one poll loop, commands on stdin.

    python -m bench.swarm.crew CONFIG      (a JSON file, see `Config`)

Commands and answers are lines of JSON. Each minion is one DEALER with the options, keys and frames
of catena's own transport; what many minions say alike is packed once.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq

from bench.swarm.minion import SimMinion
from bench.swarm.pace import Pace
from bench.swarm.population import Member, load
from catena.core.chain_calls import RESUME, START
from catena.transport import messages as m
from catena.transport import wire
from catena.transport.sockets import dealer, readable

#: Connections that may be on their way at a time: the master's handshakes have a time limit.
CONNECTING = 100
#: A connection without a welcome by then is made anew.
PATIENCE_SECONDS = 6.0
PING_SECONDS = 15.0
SILENT_SECONDS = 60.0
GOODBYE_LINGER_MS = 200
TICK_SECONDS = 0.5
#: Heartbeats of each minion in a tick, while there are some to be made at once.
BEATS = 4
#: Kinds of messages that many minions get alike.
_ALIKE = frozenset(kind for kind, name in m.TYPES.items() if name in ("JobOrder", "ReturnStored"))


@dataclass(frozen=True)
class Config:
    """What a crew is told."""

    population: str
    first: int
    count: int
    endpoint: str
    server_key: str
    return_bytes: int


@dataclass
class Line:
    """A minion and its connection."""

    minion: SimMinion
    member: Member
    sock: zmq.Socket[bytes] | None = None
    fd: int = -1
    welcome: bool = False
    begun: float = 0.0
    heard: float = 0.0
    pinged: float = 0.0
    #: When it said the Hello of a new boot whose resume is waited for; 0.0 without.
    greeted: float = 0.0
    #: Packed returns that the master has not stored, by job.
    unstored: dict[str, bytes] = field(default_factory=dict)
    #: Whether the connection took no more since these were said last.
    refused: bool = False


class Firing:
    """Events on their way: a window of each minion's, until all are acknowledged."""

    def __init__(self, names: list[str], each: int, body: str, window: int) -> None:
        self.began = time.monotonic()
        self.total = len(names) * each
        self.acked = 0
        self.latencies: list[float] = []
        self.window = window
        self._left = dict.fromkeys(names, each)
        #: Per minion, what is not acknowledged: the event and when it was sent first.
        self._open: dict[str, dict[str, tuple[m.EventFired, float]]] = {n: {} for n in names}
        self._body = body

    def more(self, name: str, most: int) -> Iterator[m.EventFired]:
        """Yield the next events of a minion, at most *most*."""
        for _ in range(min(most, self._left.get(name, 0))):
            self._left[name] -= 1
            event_id = f"{self.began:.6f}-{self._left[name]}"
            event = m.EventFired(event_id, "bench/event", {"text": self._body})
            self._open[name][event_id] = (event, time.monotonic())
            yield event

    def again(self, name: str) -> list[m.EventFired]:
        """Return what a minion has to say again on its new connection."""
        return [event for event, _ in self._open.get(name, {}).values()]

    def stored(self, name: str, event_id: str) -> bool:
        """Take an acknowledgement; True for one that was waited for."""
        found = self._open.get(name, {}).pop(event_id, None)
        if found is None:
            return False
        self.acked += 1
        self.latencies.append(time.monotonic() - found[1])
        return True


class Crew:
    """The minions of one process."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        # Sockets of ended connections go a little later.
        self._context.set(zmq.MAX_SOCKETS, 2 * config.count + 1024)
        members = load(Path(config.population))[config.first : config.first + config.count]
        value = "x" * config.return_bytes
        self._lines = [Line(SimMinion(x.id, x.machine_id, value), x) for x in members]
        self._by_fd: dict[int, Line] = {}
        self._waiting = deque(self._lines)
        self._connecting = 0
        self._pace = Pace(CONNECTING)
        #: Connections and when they were begun, oldest first; many have their welcome since.
        self._begun: deque[tuple[float, Line]] = deque()
        self._poll = select.epoll()
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        self._turn = 0
        self._ticked = 0.0
        self._counts: Counter[str] = Counter()
        self._firing: Firing | None = None
        #: Heartbeats that each minion has still to make at once.
        self._beats = 0
        #: Function whose orders are told with their time; "" for none.
        self._watched = ""
        self._rebooting: list[float] = []
        self._reboots = 0
        #: Per kind of _ALIKE, the last body and its message.
        self._cached: dict[int, tuple[bytes, Any]] = {}
        self._frames: dict[str, list[bytes]] = {}
        self._do: dict[str, Callable[[dict[str, Any]], None]] = {
            "fire": self._fire, "reboot": self._reboot, "stats": self._stats, "watch": self._watch,
            "beat": self._beat,
        }  # fmt: skip

    def run(self) -> None:
        """Serve until stdin ends."""
        input_fd = sys.stdin.fileno()
        pending = b""
        while True:
            self._connect_more()
            for fd, _ in self._poll.poll(TICK_SECONDS):
                if fd != input_fd:
                    self._drain(self._by_fd.get(fd))
                    continue
                text = os.read(input_fd, 65536)
                if not text:
                    return
                *lines, pending = (pending + text).split(b"\n")
                for line in lines:
                    command = json.loads(line)
                    self._do[command["do"]](command)
            self._tick(time.monotonic())

    # -- connections -----------------------------------------------------------------------------

    def _connect_more(self) -> None:
        while self._waiting and self._connecting < self._pace.room:
            self._connecting += 1
            self._connect(self._waiting.popleft())

    def _connect(self, line: Line) -> None:
        sock = dealer(self._context, "control", line.member.pair, self._config.server_key)
        sock.connect(self._config.endpoint)
        fd = sock.getsockopt(zmq.FD)
        assert isinstance(fd, int)
        line.sock, line.fd, line.welcome = sock, fd, False
        line.begun = line.heard = line.pinged = time.monotonic()
        self._begun.append((line.begun, line))
        self._by_fd[fd] = line
        self._poll.register(fd, select.EPOLLIN)
        sock.send(wire.pack(line.minion.hello(line.unstored)), zmq.NOBLOCK)
        self._drain(line)

    def _close(self, line: Line, linger_ms: int = 0) -> None:
        assert line.sock is not None
        if not line.welcome:
            self._connecting -= 1
        self._poll.unregister(line.fd)
        del self._by_fd[line.fd]
        line.sock.close(linger=linger_ms)
        line.sock, line.welcome = None, False

    def _again(self, line: Line) -> None:
        self._close(line)
        self._waiting.append(line)

    def _tick(self, now: float) -> None:
        if now - self._ticked < TICK_SECONDS:
            return
        self._ticked = now
        self._beat_on()
        self._give_up(now - PATIENCE_SECONDS)
        share = max(1, int(len(self._lines) * TICK_SECONDS / PING_SECONDS) + 1)
        for _ in range(min(share, len(self._lines))):
            line = self._lines[self._turn % len(self._lines)]
            self._turn += 1
            if line.sock is None or not line.welcome or now - line.pinged < PING_SECONDS / 2:
                continue
            if now - line.heard > SILENT_SECONDS:
                self._counts["silent"] += 1
                self._again(line)
                continue
            line.pinged = now
            if line.refused:
                self._say_returns_again(line)
            self._send(line, wire.pack(m.Ping(1)))
            self._drain(line)

    def _give_up(self, before: float) -> None:
        """Make connections anew that have no welcome and were begun before that."""
        failed = 0
        while self._begun and self._begun[0][0] < before:
            begun, line = self._begun.popleft()
            if line.sock is not None and line.begun == begun and not line.welcome:
                failed += 1
                self._again(line)
        if failed:
            self._counts["retried"] += failed
            self._pace.failed()

    # -- messages --------------------------------------------------------------------------------

    def _send(self, line: Line, frame: bytes) -> None:
        assert line.sock is not None
        try:
            line.sock.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            self._counts["refused"] += 1
            line.refused = True

    def _drain(self, line: Line | None) -> None:
        while line is not None and line.sock is not None and readable(line.sock):
            frame = line.sock.recv(zmq.NOBLOCK)
            line.heard = time.monotonic()
            self._take(line, frame)

    def _unpack(self, frame: bytes) -> m.Envelope:
        # One job's order to a thousand minions, and the answer to their returns, differ in their
        # headers alone.
        kind = frame[0]
        if kind not in _ALIKE:
            return wire.unpack(frame, socket="control", receiver="minion")
        body = frame[wire.HEADER_BYTES :]
        known, message = self._cached.get(kind, (b"", None))
        if body == known:
            return m.Envelope(frame[2:18], frame[18:34], message)
        envelope = wire.unpack(frame, socket="control", receiver="minion")
        self._cached[kind] = (body, envelope.message)
        return envelope

    def _take(self, line: Line, frame: bytes) -> None:
        envelope = self._unpack(frame)
        message = envelope.message
        self._counts[type(message).__name__] += 1
        if isinstance(message, m.JobOrder):
            self._ordered(line, message)
        elif isinstance(message, m.ReturnStored):
            line.unstored.pop(message.jid, None)
            if message.jid == line.minion.reboots_after:
                self._restart(line)
        elif isinstance(message, m.EventStored):
            self._event_stored(line, message.event_id)
        elif isinstance(message, m.Ping):
            self._send(line, wire.pack(m.Pong(message.seq), reply_to=envelope.msg_id))
        elif isinstance(message, m.Welcome):
            if not line.welcome:
                line.welcome = True
                self._connecting -= 1
                self._pace.succeeded()
                self._say_returns_again(line)
                self._say_events_again(line)
                self._say_of_jobs(line, line.minion.go_on(time.time()))
            if self._connecting == 0 and not self._waiting:
                self._say("connected", minions=len(self._lines))
        elif isinstance(message, (m.Refused, m.Goodbye)):
            self._again(line)
        elif isinstance(message, m.Failure):
            self._say("failure", code=message.code, message=message.message)

    def _ordered(self, line: Line, order: m.JobOrder) -> None:
        spec = order.spec
        if spec.fun == self._watched:
            self._say("order", at=time.monotonic())
        if spec.fun == RESUME and line.greeted:
            self._rebooting.append(time.monotonic() - line.greeted)
            line.greeted = 0.0
            if len(self._rebooting) == self._reboots:
                self._say("reboot", seconds=self._rebooting)
        if spec.jid in line.unstored:
            # It has run: the master has not heard of it.
            self._send(line, line.unstored[spec.jid])
        elif spec.fun in (START, RESUME):
            self._say_of_jobs(line, line.minion.ordered(spec, time.time()))
        else:
            # Those of one job share what is packed; each has a message id of its own.
            own = [
                frame[:2] + wire.new_id() + frame[2 + wire.ID_BYTES :]
                for frame in self._alike(line, order)
            ]
            line.unstored[spec.jid] = own[-1]
            for frame in own:
                self._send(line, frame)

    def _say_of_jobs(self, line: Line, said: list[Any]) -> None:
        """Say it; a return is kept until it is stored."""
        for message in said:
            frame = wire.pack(message)
            if isinstance(message, m.JobReturned):
                line.unstored[message.ret.jid] = frame
            self._send(line, frame)

    def _say_returns_again(self, line: Line) -> None:
        line.refused = False
        for frame in list(line.unstored.values()):
            self._send(line, frame)

    def _alike(self, line: Line, order: m.JobOrder) -> list[bytes]:
        """Return what every minion says to this order."""
        known = self._frames.get(order.spec.jid)
        if known is None:
            if len(self._frames) > 64:
                self._frames.clear()
            said = line.minion.ordered(order.spec, time.time())
            known = self._frames[order.spec.jid] = [wire.pack(each) for each in said]
        return known

    # -- commands --------------------------------------------------------------------------------

    def _fire(self, command: dict[str, Any]) -> None:
        lines = self._lines[: command["minions"]]
        body = "x" * command.get("bytes", 100)
        names = [line.minion.id for line in lines]
        self._firing = firing = Firing(names, command["each"], body, command["window"])
        for line in lines:
            for event in firing.more(line.minion.id, firing.window):
                # One that is away says them when it is welcome again.
                if line.welcome:
                    self._send(line, wire.pack(event))
            self._drain(line)

    def _say_events_again(self, line: Line) -> None:
        if self._firing is not None:
            for event in self._firing.again(line.minion.id):
                self._send(line, wire.pack(event))

    def _event_stored(self, line: Line, event_id: str) -> None:
        firing = self._firing
        if firing is None or not firing.stored(line.minion.id, event_id):
            return
        for event in firing.more(line.minion.id, 1):
            self._send(line, wire.pack(event))
        if firing.acked == firing.total:
            seconds = time.monotonic() - firing.began
            self._firing = None
            latencies = sorted(firing.latencies)
            self._say(
                "fire",
                events=firing.total,
                seconds=seconds,
                median=latencies[len(latencies) // 2],
                p99=latencies[int(len(latencies) * 0.99)],
            )

    def _reboot(self, command: dict[str, Any]) -> None:
        """Give minions a new boot, and tell how soon each is asked to resume."""
        lines = self._lines[command["first"] :][: command["minions"]]
        self._rebooting, self._reboots = [], len(lines)
        for line in lines:
            self._restart(line)

    def _restart(self, line: Line) -> None:
        line.minion.boot()
        self._send(line, wire.pack(m.Goodbye("reboot")))
        self._close(line, GOODBYE_LINGER_MS)
        line.greeted = time.monotonic()
        self._waiting.append(line)

    def _beat(self, command: dict[str, Any]) -> None:
        self._beats = command["times"]

    def _beat_on(self) -> None:
        if self._beats <= 0:
            return
        self._beats -= BEATS
        for line in self._lines:
            if line.sock is not None and line.welcome:
                for _ in range(BEATS):
                    self._send(line, wire.pack(m.Ping(1)))
                self._drain(line)
        if self._beats <= 0:
            self._say("beaten")

    def _watch(self, command: dict[str, Any]) -> None:
        self._watched = command["fun"]
        self._say("watching")

    def _stats(self, command: dict[str, Any]) -> None:
        up = sum(line.welcome and line.sock is not None for line in self._lines)
        self._say("stats", up=up, **self._counts)

    def _say(self, what: str, **data: Any) -> None:
        print(json.dumps({"said": what, **data}), flush=True)


def main() -> None:
    """Run a crew."""
    config = Config(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    Crew(config).run()


if __name__ == "__main__":
    main()

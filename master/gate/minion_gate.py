"""The table of minion messages: their handlers, and who may send them.

The connection alone identifies a minion. On control, Hello must come before any other message; the
bulk and enrol sockets have tables of their own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import sqlalchemy as sa

from catena.core import events
from catena.core.clock import Clock
from catena.core.errors import CatenaError, LimitError, NotAllowedError, TryLaterError
from catena.master.events.bus import EventBus, NewEvent
from catena.master.gate.presence import Presence
from catena.master.jobs.output import BURST_BYTES, Outputs, cost
from catena.master.jobs.part_buffer import PartBuffer
from catena.master.jobs.returns import Returns
from catena.master.keys.enrol import Enrol
from catena.master.keys.service import Keys
from catena.master.minions.limits import RateLimit
from catena.master.minions.sessions import MessageSender
from catena.master.store.database import Bulk, Store, after_commit
from catena.master.store.fast.pending import Pending
from catena.transport import messages as m
from catena.transport.failures import failure_of
from catena.transport.peers import Peer
from catena.transport.return_parts import join_return
from catena.transport.wire import only_field

log = logging.getLogger(__name__)

#: Seconds between two log lines about the dropped messages of a minion over its rate.
DROPPED_EVERY_SECONDS = 60.0
#: Maximum reports of one minion on its jobs, per second and below at once: each writes to the
#: store. Receipts (with refusals) and steps are counted apart. A master resends an order without
#: a receipt, and a return replaces the steps of its job.
REPORT_RATE = 1000.0
REPORT_BURST = 10_000.0
EVENT_ID_LIMIT = 64
#: Maximum Hellos of one key, per second and below at once: each may store a session and an event.
HELLO_RATE = 1.0
HELLO_BURST = 30.0
#: Maximum concurrent requests of one minion, and below those for pillar and for calls on other
#: hosts, since all minions share the processes and threads that serve them.
SERVED_LIMIT = 128
PILLAR_LIMIT = 32
PEER_LIMIT = 8
#: Maximum attempts to send an answer to a full queue, and below the pause in seconds.
SEND_TRIES = 100
SEND_PAUSE_SECONDS = 0.02
#: Logged refusals of one minion, per second and below at once.
AUDIT_RATE = 0.1
AUDIT_BURST = 20.0


_LIMITS = {m.PillarRequest: PILLAR_LIMIT, m.PeerRequest: PEER_LIMIT}


class PillarSource(Protocol):
    """Compiles pillar in worker processes."""

    async def compile(self, minion: str, request: m.PillarRequest) -> m.PillarReply:
        """Return the pillar of *minion*, or its errors."""


class BulkFiles(Protocol):
    """Serves files to the bulk socket; called in a thread."""

    def manifest(self, minion: str, saltenv: str, asked: float | None = None) -> m.ManifestReply:
        """Return the file list of an environment for *minion*, no older than *asked*."""

    def chunk(self, minion: str, request: m.ChunkRequest) -> m.ChunkReply:
        """Return a piece of a file."""

    def files(self, minion: str, request: m.FilesRequest) -> m.FilesReply:
        """Return several small files."""


class PushService(Protocol):
    """Receives files that minions push."""

    def put(self, minion: str, part: m.FilePush) -> m.FileStored:
        """Store one piece."""


class PeerCalls(Protocol):
    """Carries out calls that minions ask for."""

    async def call(self, minion: str, request: m.PeerRequest) -> m.PeerReply:
        """Return the reply to a request of *minion*."""


@dataclass(frozen=True, slots=True)
class GateParts:
    """The services that handle messages."""

    store: Store
    bus: EventBus
    keys: Keys
    link: MessageSender
    clock: Clock
    enrol: Enrol
    presence: Presence
    returns: Returns
    pillar: PillarSource
    files: BulkFiles
    return_limit_bytes: int
    events_per_second: int
    #: Bytes of running jobs' output that one minion may send.
    output_per_second: int
    outputs: Outputs
    push: PushService
    peers: PeerCalls


Outcome = asyncio.Future[Any] | Pending | None
#: A minion's event, and the function that acknowledges it.
_Fired = tuple[NewEvent, Callable[[], object]]
_Handler = Callable[[Peer, str, m.Envelope], Outcome]


class MinionGate:
    """Dispatches each message of a minion. `on_message` is the gateway's callback."""

    def __init__(self, parts: GateParts) -> None:
        self._parts = parts
        self._buffer = PartBuffer(parts.return_limit_bytes, parts.clock.monotonic)
        rate = float(parts.events_per_second)
        self._rate = RateLimit(rate, rate * 2, parts.clock.monotonic)
        rate = float(parts.output_per_second)
        self._output_rate = RateLimit(rate, rate * 2 + BURST_BYTES, parts.clock.monotonic)
        self._receipts = RateLimit(REPORT_RATE, REPORT_BURST, parts.clock.monotonic)
        self._steps = RateLimit(REPORT_RATE, REPORT_BURST, parts.clock.monotonic)
        self._hellos = RateLimit(HELLO_RATE, HELLO_BURST, parts.clock.monotonic)
        self._audits = RateLimit(AUDIT_RATE, AUDIT_BURST, parts.clock.monotonic)
        self._served: Counter[tuple[str, type]] = Counter()
        self._events = Bulk(self._store_event, self._store_events)
        #: (minion, kind of message) -> number that were dropped since the last report.
        self._dropped: Counter[tuple[str, str]] = Counter()
        #: The same -> monotonic time of the last report.
        self._reported: dict[tuple[str, str], float] = {}
        self._callers: set[tuple[str, bytes]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._control: dict[type, _Handler] = {
            m.Ping: lambda peer, minion, envelope: None,
            m.Pong: lambda peer, minion, envelope: None,
            m.Goodbye: self._goodbye,
            m.GrainsUpdate: self._grains,
            m.JobReceived: self._received,
            m.JobRejected: self._rejected,
            m.JobProgressed: self._progressed,
            m.JobReturned: self._returned,
            m.JobOutput: self._output,
            m.EventFired: self._event,
            m.PillarRequest: self._pillar,
            m.PeerRequest: self._peer,
            m.KeyAnnounce: self._announce,
        }
        self._bulk: dict[type, _Handler] = {
            m.ManifestRequest: self._manifest,
            m.ChunkRequest: self._chunk,
            m.FilesRequest: self._files,
            m.ReturnPart: self._part,
            m.FilePush: self._push,
        }

    def handled(self) -> Collection[type]:
        """Return all message types with a handler (checked against the wire's table)."""
        return {*self._control, *self._bulk, m.Hello, m.EnrolProbe, m.EnrolRequest}

    def on_message(self, peer: Peer, envelope: m.Envelope) -> Outcome:
        """Handle one message; a CatenaError becomes the gateway's Failure.

        Raises:
            NotAllowedError: there was no Hello, or the key is not a minion's.
            TryLaterError: too many requests of this minion are in progress.
        """
        try:
            if peer.socket == "enrol":
                return self._parts.enrol.on_message(peer, envelope)
            if isinstance(envelope.message, m.Hello):
                return self._hello(peer, envelope)
            return self._dispatch(peer, envelope)
        except CatenaError as error:
            self._audit(peer, envelope, error)
            raise

    def _hello(self, peer: Peer, envelope: m.Envelope) -> Outcome:
        if not self._hellos.allow(peer.user_id):
            self._audit(peer, envelope, TryLaterError("too many Hellos"))
            self._parts.link.send(peer, m.Refused("busy", "too many Hellos", 30.0))
            return None
        done = self._parts.presence.hello(peer, envelope)
        if envelope.message.role == "caller" and done is not None:
            self._callers.add((peer.socket, peer.routing_id))
        return self._answer_errors(peer, envelope, done)

    def _dispatch(self, peer: Peer, envelope: m.Envelope) -> Outcome:
        minion = self._parts.keys.minion_of(peer.user_id)
        if minion is None:
            raise NotAllowedError("this key is not accepted")
        kind = type(envelope.message)
        limit = _LIMITS.get(kind, SERVED_LIMIT)
        if self._served[minion, kind] >= limit:
            raise TryLaterError(f"{limit} such requests of this minion are already in progress")
        if peer.socket == "bulk":
            done = self._bulk[kind](peer, minion, envelope)
            return self._answer_errors(peer, envelope, done)
        session = self._parts.presence.heard(peer)
        if session is None and (peer.socket, peer.routing_id) not in self._callers:
            if isinstance(envelope.message, (m.Pong, m.Goodbye)):
                return None
            # The minion may think that it is welcome, if a Refused was lost or it was silent for
            # too long. Without an answer it would wait for ever.
            self._parts.link.send(
                peer, m.Refused("hello", "send a Hello first", 0.0), envelope.msg_id
            )
            if isinstance(envelope.message, m.Ping):
                return None
            raise NotAllowedError("send a Hello first")
        done = self._control[kind](peer, minion, envelope)
        return self._answer_errors(peer, envelope, done)

    def on_gone(self, peer: Peer) -> None:
        """Process the end of a connection."""
        self._callers.discard((peer.socket, peer.routing_id))
        if peer.socket == "control":
            self._parts.presence.gone(peer)

    def sweep(self) -> None:
        """Remove expired state and report dropped messages; call it every few seconds."""
        self._buffer.drop_idle()
        now = self._parts.clock.monotonic()
        for key, count in list(self._dropped.items()):
            if now - self._reported.get(key, float("-inf")) < DROPPED_EVERY_SECONDS:
                continue
            self._reported[key] = now
            del self._dropped[key]
            minion, kind = key
            tag = f"salt/minion/{minion}/dropped"
            log.warning("%s sent %d %s over its rate; they were dropped", minion, count, kind)
            data = {"id": minion, kind: count}
            self._parts.store.later(partial(self._parts.bus.record, tag=tag, data=data))

    async def close(self) -> None:
        """Cancel the requests in progress."""
        # A task that ends with an error may start another one, which sends the error.
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _goodbye(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        self._parts.presence.goodbye(peer, envelope.message)
        return None

    def _grains(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        return self._parts.presence.grains(peer, minion, envelope)

    def _received(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        if not self._receipts.allow(minion):
            self._dropped[minion, "receipts"] += 1
            return None
        return self._parts.returns.received(minion, envelope.message)

    def _rejected(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        if not self._receipts.allow(minion):
            self._dropped[minion, "receipts"] += 1
            return None
        return self._parts.returns.rejected(minion, envelope.message)

    def _progressed(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        if not self._steps.allow(minion):
            self._dropped[minion, "steps"] += 1
            return None
        return self._parts.returns.progressed(minion, envelope.message.progress)

    def _returned(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        packed = only_field(envelope.body, "ret")
        return self._parts.returns.returned(peer, minion, envelope.message.ret, envelope, packed)

    def _output(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        outputs, message = self._parts.outputs, envelope.message
        if not self._output_rate.allow(minion, cost(message)):
            self._audit(peer, envelope, LimitError("more output per second than is allowed"))
            outputs.skip(peer, message, envelope.msg_id)
            return None
        return outputs.received(peer, minion, message, envelope.msg_id)

    def _event(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        fired: m.EventFired = envelope.message
        if not 0 < len(fired.event_id) <= EVENT_ID_LIMIT or not events.is_tag(fired.tag):
            raise NotAllowedError("an event needs an id of at most 64 characters and a tag")
        if not self._rate.allow(minion):
            # Acknowledge it like a stored event, so that the minion does not resend it for ever.
            self._dropped[minion, "events"] += 1
            self._parts.link.send(peer, m.EventStored(fired.event_id), envelope.msg_id)
            return None
        # Reactors rely on the id: replace whatever the sender wrote by the sender's id.
        data = {**fired.data, "id": minion}
        tag = events.own_tag(minion, fired.tag)
        stored = m.EventStored(fired.event_id)

        def ack() -> None:
            self._parts.link.send(peer, stored, envelope.msg_id)

        new = NewEvent(tag, data, minion, fired.event_id)
        return self._parts.store.post_item(self._events, (new, ack))

    def _store_event(
        self, conn: sa.Connection, item: tuple[NewEvent, Callable[[], object]]
    ) -> None:
        new, ack = item
        if not self._parts.bus.has_event(conn, new.source, new.event_id or ""):
            self._parts.bus.record(conn, new.tag, new.data, new.source, new.event_id)
        after_commit(conn, ack)

    def _store_events(self, conn: sa.Connection, items: Sequence[_Fired]) -> None:
        # A duplicate violates the constraint of all; then each is stored separately.
        self._parts.bus.record_many(conn, [new for new, _ in items])
        for _, ack in items:
            after_commit(conn, ack)

    def _pillar(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        return self._serve(peer, envelope, self._parts.pillar.compile(minion, envelope.message))

    def _peer(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        return self._serve(peer, envelope, self._parts.peers.call(minion, envelope.message))

    def _announce(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        public = envelope.message.public_key

        async def announce() -> m.KeyTaken:
            await self._parts.keys.announce(minion, public)
            return m.KeyTaken(public)

        return self._serve(peer, envelope, announce())

    def _manifest(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        service, saltenv = self._parts.files, envelope.message.saltenv
        work = asyncio.to_thread(service.manifest, minion, saltenv, time.monotonic())
        return self._serve(peer, envelope, work)

    def _chunk(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        service, request = self._parts.files, envelope.message
        return self._serve(peer, envelope, asyncio.to_thread(service.chunk, minion, request))

    def _files(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        service, request = self._parts.files, envelope.message
        return self._serve(peer, envelope, asyncio.to_thread(service.files, minion, request))

    def _push(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        service, part = self._parts.push, envelope.message
        return self._serve(peer, envelope, asyncio.to_thread(service.put, minion, part))

    def _part(self, peer: Peer, minion: str, envelope: m.Envelope) -> Outcome:
        parts = self._buffer.add(minion, envelope.message)
        if parts is None:
            return None

        async def join() -> None:
            limit = self._parts.return_limit_bytes
            whole = await asyncio.to_thread(join_return, parts, limit)
            await self._parts.returns.returned(peer, minion, whole.ret, envelope)

        return self._serve(peer, envelope, join())

    def _serve(self, peer: Peer, envelope: m.Envelope, work: Coroutine[Any, Any, Any]) -> Outcome:
        """Answer with the result of *work* (no answer for None), or with its error."""

        async def run() -> None:
            answer = await work
            if answer is not None:
                await self._deliver(peer, answer, envelope.msg_id)

        key = (self._parts.keys.minion_of(peer.user_id) or "", type(envelope.message))
        task = asyncio.ensure_future(run())
        self._tasks.add(task)
        self._served[key] += 1

        def end(_: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            self._served[key] -= 1
            if not self._served[key]:
                del self._served[key]

        task.add_done_callback(end)
        return task

    async def _deliver(self, peer: Peer, answer: Any, msg_id: bytes) -> None:
        """Send an answer; retry a few times while the peer's short queue is full.

        After a dropped answer the peer would wait for its whole timeout.
        """
        for _ in range(SEND_TRIES):
            if self._parts.link.send(peer, answer, msg_id):
                return
            await asyncio.sleep(SEND_PAUSE_SECONDS)

    def _audit(self, peer: Peer, envelope: m.Envelope, error: CatenaError) -> None:
        """Log a refusal, at a limited rate."""
        who = self._parts.keys.minion_of(peer.user_id) or f"key {peer.user_id[:16]}"
        if self._audits.allow(peer.user_id if peer.socket != "enrol" else peer.address):
            kind = type(envelope.message).__name__
            log.warning("%s at %s: %s refused: %s", who, peer.address, kind, error)

    def _answer_errors(self, peer: Peer, envelope: m.Envelope, done: Outcome) -> Outcome:
        if done is not None:
            done.add_done_callback(partial(self._fail, peer, envelope))
        return done

    def _fail(
        self, peer: Peer, envelope: m.Envelope, ended: asyncio.Future[Any] | Pending
    ) -> None:
        error = None if ended.cancelled() else ended.exception()
        if error is None:
            return
        if isinstance(error, CatenaError):
            self._audit(peer, envelope, error)
            failure = failure_of(error)
        else:
            if self._audits.allow(peer.user_id):
                log.error("a %s failed", type(envelope.message).__name__, exc_info=error)
            failure = m.Failure("CatenaError", "an error of the master; its log has the details")
        if not self._parts.link.send(peer, failure, envelope.msg_id):
            # The queue of the minion's connection may be full for a moment. Without another
            # attempt the minion would wait for the time-out of its request.
            self._serve(peer, envelope, _ready(failure))


async def _ready(answer: m.Failure) -> m.Failure:
    return answer

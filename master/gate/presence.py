"""Presence of minions, and conflicts between two claims to one identity.

A minion is up from its Hello. It is down after a Goodbye, or after three missed heartbeats. The
end of a connection only makes its jobs wait, since most minions reconnect at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena import __version__
from catena.core import events, failpoints
from catena.core.clock import Clock
from catena.core.errors import CatenaError
from catena.core.ids import machine_id as checked_machine_id
from catena.master.events.bus import EventBus
from catena.master.jobs.sender import Backlog, JobSender
from catena.master.keys.ring import KnownKey
from catena.master.keys.service import Keys
from catena.master.minions import rows
from catena.master.minions.facts import Facts
from catena.master.minions.sessions import MessageSender, Session, Sessions
from catena.master.store.database import Store, after_commit
from catena.transport.messages import Envelope, Goodbye, Hello, Ping, Refused, Welcome
from catena.transport.messages.session import JOB_OUTPUT, MASTER_WIRE
from catena.transport.peers import Peer

log = logging.getLogger(__name__)

#: Number of heartbeats without a frame after which a minion is down.
SILENT_BEATS = 3
#: Seconds in which the older of two claimants must answer a ping.
ANSWER_SECONDS = 3.0
#: Seconds after which a refused claimant may ask again.
REFUSED_RETRY_SECONDS = 60.0
BUSY_RETRY_SECONDS = 10.0
#: Interval at which the times of the minions' last frames are stored.
LAST_SEEN_EVERY_SECONDS = 30.0
#: Maximum length of a session or boot id, characters.
SESSION_LIMIT = 64


@dataclass(frozen=True, slots=True)
class PresenceParts:
    """The objects that presence works with."""

    store: Store
    bus: EventBus
    keys: Keys
    facts: Facts
    sessions: Sessions
    job_sender: JobSender
    link: MessageSender
    clock: Clock
    ping_interval_seconds: int
    #: Limits sent in the Welcome.
    events_per_second: int
    #: Bytes of running jobs' output: per second and minion, and below stored per job; 0: none.
    output_per_second: int = 0
    output_limit: int = 0


@dataclass(frozen=True, slots=True)
class _Claim:
    """A Hello that waits for an older session to answer or time out."""

    peer: Peer
    envelope: Envelope
    minion: str
    code: str


class Presence:
    """Admits connections of accepted keys and records which minions are up."""

    def __init__(self, parts: PresenceParts) -> None:
        self._parts = parts
        self._claims: defaultdict[int, list[_Claim]] = defaultdict(list)
        self._seq = 0
        #: Minions that are up in the store without a session -> monotonic time at which they are
        #: down.
        self._leaving: dict[str, float] = {}
        self._heard: set[str] = set()
        self._flushed = parts.clock.monotonic()
        #: Called with each minion whose Hello is stored.
        self.on_admitted: list[Callable[[str], None]] = []

    async def open(self) -> None:
        """Give minions that were up when the master stopped time to reconnect."""
        up = await self._parts.store.read(rows.up)
        until = self._parts.clock.monotonic() + self._patience
        self._leaving = dict.fromkeys(up, until)

    @property
    def _patience(self) -> float:
        return float(SILENT_BEATS * self._parts.ping_interval_seconds)

    def hello(self, peer: Peer, envelope: Envelope) -> asyncio.Future[Any] | None:
        """Accept or refuse a Hello, or first ping a session that conflicts with it."""
        hello: Hello = envelope.message
        minion = self._parts.keys.minion_of(peer.user_id)
        if minion is None or hello.id != minion:
            why = f"this key belongs to {minion}, not to {hello.id[:80]!r}"
            self._refuse(peer, envelope, "identity", why)
            return None
        checked_machine_id(hello.machine_id)
        if not 0 < len(hello.session) <= SESSION_LIMIT or len(hello.boot_id) > SESSION_LIMIT:
            why = f"session and boot id must have at most {SESSION_LIMIT} characters"
            self._refuse(peer, envelope, "identity", why)
            return None
        owner = self._parts.keys.owner_of_machine(hello.machine_id, minion)
        if owner != minion:
            self._refuse_machine(_Claim(peer, envelope, minion, "duplicate_machine"), owner)
            return None
        if hello.role == "caller":
            self._parts.link.send(peer, self._welcome(envelope.message), envelope.msg_id)
            stored = self._parts.store.post(lambda conn: self._store_caller(conn, peer, hello))
            self._parts.facts.coming(minion, stored)
            return stored
        admitted = self._parts.sessions.of(peer)
        if admitted and admitted.session == hello.session:
            # A repeated Hello, sent before the first was answered. It lacks jobs that were sent
            # since, and would make them count as lost.
            self._parts.link.send(peer, self._welcome(envelope.message), envelope.msg_id)
            return None
        for old, code in self._rivals(minion, hello):
            if self._challenge(old):
                self._claims[id(old)].append(_Claim(peer, envelope, minion, code))
                return None
            self._drop(old)
        return self._admit(peer, envelope, minion)

    def heard(self, peer: Peer) -> Session | None:
        """Record that a frame arrived on a connection; return its session, or None."""
        session = self._parts.sessions.of(peer)
        if session is None:
            return None
        session.heard = self._parts.clock.monotonic()
        self._heard.add(session.minion)
        for claim in self._claims.pop(id(session), ()):
            self._refuse_claim(claim, session)
        return session

    def goodbye(self, peer: Peer, message: Goodbye) -> None:
        """Process a Goodbye: the minion is down now."""
        session = self._parts.sessions.of(peer)
        if session is not None and self._drop(session):
            self._leaving[session.minion] = 0.0
            self._settle_leavers()

    def gone(self, peer: Peer) -> None:
        """Process the end of a connection: jobs wait; the minion is down if it stays away."""
        session = self._parts.sessions.of(peer)
        if session is not None:
            self._drop(session)

    def closed(self, key: KnownKey) -> None:
        """End the session of a key that lost its access; the gateway notifies the minion."""
        session = self._parts.sessions.get(key.minion)
        if session is None or session.peer.user_id != key.fingerprint:
            return
        if self._drop(session):
            self._leaving[session.minion] = 0.0

    def tick(self) -> None:
        """Check for silent minions; call it about once a second."""
        now = self._parts.clock.monotonic()
        for session in self._parts.sessions:
            silence = now - session.heard
            if silence > self._patience:
                self._drop(session)
                self._leaving[session.minion] = now
            elif silence > self._parts.ping_interval_seconds * 1.5:
                self._ping(session)
        self._settle_leavers()
        if self._heard and now - self._flushed > LAST_SEEN_EVERY_SECONDS:
            self._flushed = now
            heard, self._heard = self._heard, set()
            at = self._parts.clock.now().timestamp()
            self._parts.store.later(lambda conn: rows.seen(conn, heard, at))

    def _rivals(self, minion: str, hello: Hello) -> list[tuple[Session, str]]:
        """Return other live sessions that claim the same minion id or machine."""
        own = self._parts.sessions.get(minion)
        found = []
        if own is not None and own.session != hello.session:
            found.append((own, "duplicate_key"))
        twin = self._parts.sessions.of_machine(hello.machine_id)
        if twin is not None and twin.minion != minion:
            found.append((twin, "duplicate_machine"))
        return found

    def _ping(self, session: Session) -> bool:
        self._seq += 1
        return self._parts.link.send(session.peer, Ping(self._seq))

    def _challenge(self, old: Session) -> bool:
        """Ping *old*; return whether to wait for its answer."""
        if id(old) in self._claims:
            return True
        if not self._ping(old):
            return False
        loop = asyncio.get_running_loop()
        loop.call_later(ANSWER_SECONDS, self._drop_silent, old)
        return True

    def _drop_silent(self, old: Session) -> None:
        """Drop an older session that did not answer, and process the newest claim."""
        claims = self._claims.pop(id(old), [])
        if not claims:
            return
        self._drop(old)
        for claim in claims:
            # Check each again, because the first one admitted is now the older session.
            self._retry(claim)

    def _drop(self, session: Session) -> bool:
        was_current = self._parts.sessions.drop(session)
        if was_current:
            until = self._parts.clock.monotonic() + self._patience
            self._leaving[session.minion] = until
        for claim in self._claims.pop(id(session), ()):
            asyncio.get_running_loop().call_soon(self._retry, claim)
        return was_current

    def _retry(self, claim: _Claim) -> None:
        """Accept or refuse a delayed Hello; no caller handles its errors."""
        try:
            self.hello(claim.peer, claim.envelope)
        except CatenaError as error:
            # The store is closed, because the master stops.
            busy = Refused("busy", str(error), BUSY_RETRY_SECONDS)
            self._parts.link.send(claim.peer, busy, claim.envelope.msg_id)

    def _refuse(self, peer: Peer, envelope: Envelope, code: str, why: str) -> None:
        log.warning("%s refused (%s): %s", peer.address, code, why)
        message = Refused(code, why, REFUSED_RETRY_SECONDS)
        self._parts.link.send(peer, message, envelope.msg_id)

    def _refuse_claim(self, claim: _Claim, winner: Session) -> None:
        hello: Hello = claim.envelope.message
        if claim.code == "duplicate_key":
            why = f"{claim.minion} is connected from {winner.peer.address} with the same key"
            remedy = ""
        else:
            why = f"machine id {hello.machine_id} is that of {winner.minion}, which is connected"
            remedy = " `machine_id:` in its minion file sets another"
        why = f"{why}; this one came from {claim.peer.address}: a clone?{remedy}"
        self._refuse_visibly(claim, why, winner.minion)

    def _refuse_machine(self, claim: _Claim, owner: str) -> None:
        """Refuse a minion with the machine id of another accepted one."""
        machine = claim.envelope.message.machine_id
        why = (
            f"machine id {machine} is that of {owner}, which is accepted; this one came from "
            f"{claim.peer.address}: a clone? `machine_id:` in its minion file sets another. If "
            f"{owner} is gone: catena key delete {owner}"
        )
        self._refuse_visibly(claim, why, owner)

    def _refuse_visibly(self, claim: _Claim, why: str, other: str) -> None:
        hello: Hello = claim.envelope.message
        self._refuse(claim.peer, claim.envelope, claim.code, why)
        data = {
            "id": claim.minion,
            "code": claim.code,
            "reason": why,
            "address": claim.peer.address,
            "machine_id": hello.machine_id,
            "other": other,
        }
        now = self._parts.clock.now().timestamp()

        def store(conn: sa.Connection) -> None:
            rows.conflict(conn, claim.minion, why, now)
            self._parts.bus.record(conn, events.minion_refused(claim.minion), data)

        self._parts.store.later(store)

    def _welcome(self, hello: Hello) -> Welcome:
        parts = self._parts
        rates = (parts.ping_interval_seconds, parts.events_per_second)
        if hello.wire < JOB_OUTPUT:
            return Welcome(__version__, *rates)
        limit = parts.output_limit
        output = (parts.output_per_second if limit else 0, limit)
        return Welcome(__version__, *rates, *output, wire=MASTER_WIRE)

    def _admit(self, peer: Peer, envelope: Envelope, minion: str) -> asyncio.Future[Any]:
        hello: Hello = envelope.message
        session = Session(
            minion,
            peer,
            hello.session,
            hello.machine_id,
            hello.boot_id,
            hello.version,
            self._parts.clock.monotonic(),
            hello.wire,
        )
        self._parts.sessions.put(session)
        self._parts.keys.works_as(minion, hello.machine_id)
        self._leaving.pop(minion, None)
        self._parts.link.send(peer, self._welcome(envelope.message), envelope.msg_id)
        done = self._parts.store.post(lambda conn: self._store_hello(conn, session, hello))
        self._parts.facts.coming(minion, done)
        done.add_done_callback(lambda future: self._check_stored(future, session, envelope))
        return done

    def grains(self, peer: Peer, minion: str, envelope: Envelope) -> asyncio.Future[Any]:
        """Store grains that a minion has collected."""
        now = self._parts.clock.now().timestamp()
        data = envelope.message.grains
        done = self._parts.store.post(lambda conn: rows.grains(conn, minion, data, now))
        self._parts.facts.coming(minion, done)
        session = self._parts.sessions.of(peer)
        if session is not None:
            done.add_done_callback(lambda future: self._check_stored(future, session, envelope))
        return done

    def _check_stored(
        self, future: asyncio.Future[Any], session: Session, envelope: Envelope
    ) -> None:
        """End a session whose facts cannot be stored; the minion will report them again."""
        if future.cancelled() or future.exception() is None:
            return
        if self._drop(session):
            busy = Refused("busy", "the master can't store the Hello now", BUSY_RETRY_SECONDS)
            self._parts.link.send(session.peer, busy, envelope.msg_id)

    def _store_caller(self, conn: sa.Connection, peer: Peer, hello: Hello) -> None:
        now = self._parts.clock.now().timestamp()
        rows.caller(conn, hello, peer.address, now)
        self._parts.keys.used(conn, peer.user_id)

    def _store_hello(self, conn: sa.Connection, session: Session, hello: Hello) -> None:
        failpoints.hit("master.hello")
        now = self._parts.clock.now().timestamp()
        came_up = rows.minion(conn, hello, session.peer.address, now)
        self._parts.keys.used(conn, session.peer.user_id)
        if came_up:
            self._change(conn, [session.minion], [])
        if rows.new_session(conn, session.minion, session.session, now):
            tag = events.minion_start(session.minion)
            self._parts.bus.record(conn, tag, _start(tag, hello, now))
        pending = self._parts.job_sender.reconcile(conn, session.minion, hello.open_jobs)
        after_commit(conn, lambda: self._admitted(session, pending))

    def _admitted(self, session: Session, pending: Backlog) -> None:
        if self._parts.sessions.get(session.minion) is session:
            self._parts.job_sender.deliver(pending)
        for callback in self.on_admitted:
            callback(session.minion)

    def _settle_leavers(self) -> None:
        now = self._parts.clock.monotonic()
        lost = [name for name, until in self._leaving.items() if until <= now]
        for name in lost:
            del self._leaving[name]
        lost = [name for name in lost if name not in self._parts.sessions]
        if lost:
            self._parts.store.later(lambda conn: self._store_lost(conn, lost))

    def _store_lost(self, conn: sa.Connection, lost: list[str]) -> None:
        # A minion that returned while this was queued for the writer is up already.
        names = [name for name in lost if name not in self._parts.sessions]
        changed = rows.down(conn, names, self._parts.clock.now().timestamp())
        if changed:
            self._change(conn, [], changed)

    def _change(self, conn: sa.Connection, new: list[str], lost: list[str]) -> None:
        self._parts.bus.record(conn, events.PRESENCE_CHANGE, {"new": new, "lost": lost})


def _start(tag: str, hello: Hello, now: float) -> dict[str, Any]:
    return {
        "id": hello.id,
        "cmd": "_minion_event",
        "pretag": None,
        "data": f"Minion {hello.id} started",
        "tag": tag,
        "ts": now,
        "boot_id": hello.boot_id,
        "session": hello.session,
        "version": hello.version,
        "pending_resume": hello.pending_resume,
        "resume": rows.resumable(hello.wire, hello.pending_resume),
    }

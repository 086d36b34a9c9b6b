"""What is dropped from the store: by age, and by size when that is not enough.

Nothing that is under way is ever dropped: jobs that have ended, events that every consumer has
seen, and chains that are off the list. Each step is one short transaction, so that pruning a large
store never keeps the master from storing a return.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import sqlalchemy as sa

from catena.core.config.master import MasterSettings
from catena.master.chains import cleanup
from catena.master.chains import rows as chain_rows
from catena.master.events import return_events
from catena.master.store.chain_tables import CHAIN_MINIONS, CHAINS
from catena.master.store.execution_tables import RUNS
from catena.master.store.lists import padded
from catena.master.store.tables import CURSORS, EVENTS, JOBS, MINIONS, REQUESTS, RETURNS, SESSIONS
from catena.master.store.upkeep import used_bytes

log = logging.getLogger(__name__)

T = TypeVar("T")

MIB = 1024 * 1024
#: Rows that one transaction drops.
BATCH = {
    "jobs": 200,
    "returns": 250,
    "events": 5000,
    "chains": 20,
    "sessions": 5000,
    "requests": 5000,
}
#: Agent processes whose start event was made are remembered for so long.
SESSION_SECONDS = 30 * 24 * 3600.0
#: How long the key of a client's request is known: a client repeats within half a minute, a
#: person or a script that was given the key within a day.
REQUEST_SECONDS = 24 * 3600.0
RECENT_SECONDS = 3600.0


class Writer(Protocol):
    """The part of the store that is needed here."""

    def write(self, fn: Callable[[sa.Connection], T]) -> Awaitable[T]:
        """Run *fn* in one transaction."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Until when things are kept, epoch seconds (0: for ever), and how much may be in use.

    What is younger than `recent` stays even when the store is too large: somebody waits for it.
    """

    jobs_before: float
    events_before: float
    chains_before: float
    sessions_before: float
    requests_before: float
    recent: float
    store_bytes: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """How many rows of each kind were dropped."""

    jobs: int = 0
    events: int = 0
    chains: int = 0
    sessions: int = 0
    requests: int = 0
    #: Of those jobs, where their events had to be dropped, or to be kept, by themselves.
    returns: int = 0

    def __add__(self, other: Dropped) -> Dropped:
        return Dropped(
            self.jobs + other.jobs,
            self.events + other.events,
            self.chains + other.chains,
            self.sessions + other.sessions,
            self.requests + other.requests,
            self.returns + other.returns,
        )

    def __bool__(self) -> bool:
        return any(
            (self.jobs, self.events, self.chains, self.sessions, self.requests, self.returns)
        )


def limits(settings: MasterSettings, now: float) -> Limits:
    """Return what *settings* keep at *now* (epoch seconds)."""
    chains = settings.keep_chains_hours
    return Limits(
        now - settings.keep_jobs_hours * 3600,
        now - settings.keep_events_hours * 3600,
        now - chains * 3600 if chains else 0.0,
        now - SESSION_SECONDS,
        now - REQUEST_SECONDS,
        now - RECENT_SECONDS,
        settings.keep_store_mib * MIB,
    )


async def prune(store: Writer, kept: Limits) -> Dropped:
    """Drop what is too old, then the oldest of what is left until the store is small enough."""
    total = await _drain(store, partial(_drop, kept=kept))
    if not kept.store_bytes:
        return total
    total += await _drain(store, partial(_shrink, kept=kept))
    used = await store.write(used_bytes)
    if used > kept.store_bytes:
        log.warning(
            "the store uses %d MiB of keep_store_mib %d, and everything left in it is in use",
            used // MIB,
            kept.store_bytes // MIB,
        )
    return total


async def _drain(store: Writer, step: Callable[[sa.Connection], Dropped]) -> Dropped:
    total = Dropped()
    while some := await store.write(step):
        total += some
    return total


def _shrink(conn: sa.Connection, kept: Limits) -> Dropped:
    """Drop the oldest of everything that may go, while too much is in use."""
    if used_bytes(conn) <= kept.store_bytes:
        return Dropped()
    new = kept.recent
    return _drop(conn, replace(kept, jobs_before=new, events_before=new, chains_before=new))


def _drop(conn: sa.Connection, kept: Limits) -> Dropped:
    return _drop_jobs(conn, kept) + Dropped(
        events=_drop_events(conn, kept.events_before),
        chains=_drop_chains(conn, kept.chains_before),
        sessions=_drop_sessions(conn, kept.sessions_before),
        requests=_drop_requests(conn, kept.requests_before),
    )


def _drop_jobs(conn: sa.Connection, kept: Limits) -> Dropped:
    # A chain that is under way may still be asked what its jobs returned.
    running = sa.select(CHAIN_MINIONS.c.jid).where(chain_rows.OPEN_RUNS)
    old = sa.select(JOBS.c.jid).where(JOBS.c.ended < kept.jobs_before, JOBS.c.jid.not_in(running))
    jids = conn.execute(old.order_by(JOBS.c.ended).limit(BATCH["jobs"])).scalars().all()
    if not jids:
        return Dropped()
    told = _drop_told(conn, jids, kept.events_before)
    if told.returns == BATCH["returns"]:
        return told
    jobs = conn.execute(sa.delete(JOBS).where(JOBS.c.jid.in_(padded(jids)))).rowcount
    return told + Dropped(jobs=jobs)


def _drop_told(conn: sa.Connection, jids: Sequence[str], before: float) -> Dropped:
    """Drop returns that have the data of their events: those go as well, or get it."""
    query = sa.select(RETURNS.c.jid, RETURNS.c.minion, RETURNS.c.event)
    query = query.where(RETURNS.c.jid.in_(padded(jids)), RETURNS.c.event.is_not(None))
    rows = conn.execute(query.limit(BATCH["returns"])).all()
    if not rows:
        return Dropped()
    seqs = [row.event for row in rows]
    old = EVENTS.c.seq.in_(padded(seqs)) & _seen(conn, before)
    gone = conn.execute(sa.delete(EVENTS).where(old))
    return_events.give_back(conn, seqs)
    minions: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        minions[row.jid].append(row.minion)
    for jid, names in minions.items():
        rule = (RETURNS.c.jid == jid) & RETURNS.c.minion.in_(padded(names))
        conn.execute(sa.delete(RETURNS).where(rule))
    return Dropped(events=gone.rowcount, returns=len(rows))


def _seen(conn: sa.Connection, before: float) -> sa.ColumnElement[bool]:
    """Return which events are old and known to every consumer."""
    rule = EVENTS.c.at < before
    slowest = conn.execute(sa.select(sa.func.min(CURSORS.c.seq))).scalar()
    return rule if slowest is None else rule & (EVENTS.c.seq <= slowest)


def _drop_events(conn: sa.Connection, before: float) -> int:
    rule = _seen(conn, before)
    last = sa.select(EVENTS.c.seq).where(rule).order_by(EVENTS.c.seq)
    seqs = conn.execute(last.limit(BATCH["events"])).scalars().all()
    if not seqs:
        return 0
    # Clocks step back: of what lies in between only what is old goes.
    between = EVENTS.c.seq.between(seqs[0], seqs[-1])
    return conn.execute(sa.delete(EVENTS).where(between & rule)).rowcount


def _drop_chains(conn: sa.Connection, before: float) -> int:
    rule = (CHAINS.c.archived == sa.true()) & (RUNS.c.ended < before)
    old = sa.select(CHAINS.c.id).join(RUNS, RUNS.c.id == CHAINS.c.run).where(rule)
    found = conn.execute(old.order_by(RUNS.c.ended).limit(BATCH["chains"])).scalars().all()
    cleanup.forget(conn, found)
    return len(found)


def _drop_sessions(conn: sa.Connection, before: float) -> int:
    live = sa.select(MINIONS.c.session).where(MINIONS.c.id == SESSIONS.c.minion)
    old = sa.select(SESSIONS.c.minion, SESSIONS.c.session).where(
        SESSIONS.c.at < before, SESSIONS.c.session.not_in(live.scalar_subquery())
    )
    rows = conn.execute(old.limit(BATCH["sessions"])).all()
    if not rows:
        return 0
    key = sa.tuple_(SESSIONS.c.minion, SESSIONS.c.session)
    return conn.execute(sa.delete(SESSIONS).where(key.in_([tuple(row) for row in rows]))).rowcount


def _drop_requests(conn: sa.Connection, before: float) -> int:
    old = sa.select(REQUESTS.c.user, REQUESTS.c.key).where(REQUESTS.c.at < before)
    rows = conn.execute(old.order_by(REQUESTS.c.at).limit(BATCH["requests"])).all()
    if not rows:
        return 0
    key = sa.tuple_(REQUESTS.c.user, REQUESTS.c.key)
    return conn.execute(sa.delete(REQUESTS).where(key.in_([tuple(row) for row in rows]))).rowcount

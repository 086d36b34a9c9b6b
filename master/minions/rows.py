"""Queries on minions and their sessions; each runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.core import run_ref
from catena.master.store.lists import padded
from catena.master.store.ssh_tables import SSH_HOSTS
from catena.master.store.tables import MINIONS, SESSIONS
from catena.transport.messages import Hello
from catena.transport.messages.session import NAMED_RUNS

#: Age in seconds at which a conflict is over: a refused claimant asks again every minute.
CONFLICT_SECONDS = 300.0
_SLICE = 5000
#: Maximum accepted `wire` of a Hello, which is untrusted.
_WIRE_LIMIT = 1_000_000
#: Maximum number of minions that a finding of `catena doctor` reads.
_FOUND_LIMIT = 10_000
#: Maximum number of sessions deleted in one transaction.
_SESSIONS_BATCH = 5000


@dataclass(frozen=True, slots=True)
class StoredMinion:
    """A minion as stored, without its grains."""

    id: str
    up: bool
    since: float
    last_seen: float
    version: str
    boot_id: str
    address: str
    machine_id: str
    conflict: str
    conflict_at: float


@dataclass(frozen=True, slots=True)
class MinionReports:
    """What a minion reported last."""

    grains: dict[str, Any]
    #: Content of its resume file; empty without one.
    pending_resume: dict[str, Any]


_COLUMNS = tuple(MINIONS.c[name] for name in StoredMinion.__dataclass_fields__)


def own_grains(name: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return a minion's grains with its true id, on which targets and pillar templates rely."""
    return {**data, "id": name}


def resumable(wire: int, pending: Mapping[str, Any]) -> dict[str, int]:
    """Return the arguments that identify a waiting run to `mgractionchains.resume`.

    {} if nothing waits or the agent does not support them; the resume is then about the run in the
    minion's resume file.

    Args:
        wire: the agent's AGENT_WIRE (`transport.messages.session`).
        pending: its report about the resume file; untrusted.
    """
    run = run_ref.named(pending) if wire >= NAMED_RUNS else None
    return {"actionchain_id": run.chain_id, "epoch": run.epoch or 0} if run else {}


def up(conn: sa.Connection) -> list[str]:
    """Return the minions that are up."""
    return [row.id for row in conn.execute(sa.select(MINIONS.c.id).where(MINIONS.c.up))]


def machines(conn: sa.Connection) -> dict[str, str]:
    """Return minion -> machine id of those that have said Hello."""
    query = sa.select(MINIONS.c.id, MINIONS.c.machine_id).where(MINIONS.c.session != "")
    return {name: machine for name, machine in conn.execute(query)}


def conflicts(conn: sa.Connection, since: float) -> dict[str, str]:
    """Return minion -> reason of the conflicts after *since*."""
    query = sa.select(MINIONS.c.id, MINIONS.c.conflict).where(MINIONS.c.conflict_at > since)
    return {name: why for name, why in conn.execute(query)}


def every(conn: sa.Connection) -> dict[str, StoredMinion]:
    """Return all minions by id."""
    return {row.id: StoredMinion(*row) for row in conn.execute(sa.select(*_COLUMNS))}


def stored(conn: sa.Connection, name: str) -> tuple[StoredMinion | None, MinionReports]:
    """Return one minion, None if it has never connected, and what it reported last."""
    query = sa.select(*_COLUMNS, MINIONS.c.grains, MINIONS.c.pending_resume)
    row = conn.execute(query.where(MINIONS.c.id == name)).one_or_none()
    if row is None:
        return None, MinionReports({}, {})
    *columns, grains, pending = row
    return StoredMinion(*columns), MinionReports(grains or {}, pending or {})


def stored_grains(conn: sa.Connection, name: str) -> dict[str, Any]:
    """Return the grains that a minion reported last; {} if none."""
    query = sa.select(MINIONS.c.grains).where(MINIONS.c.id == name)
    return conn.execute(query).scalar() or {}


def every_grains(conn: sa.Connection) -> dict[str, dict[str, Any]]:
    """Return the grains that each minion reported last, by id; {} if none."""
    found = conn.execute(sa.select(MINIONS.c.id, MINIONS.c.grains))
    return {name: data or {} for name, data in found}


def in_conflict(conn: sa.Connection) -> Sequence[str]:
    """Return the minions whose identity a second claimant has used."""
    query = sa.select(MINIONS.c.id).where(MINIONS.c.conflict != "")
    return conn.execute(query.limit(_FOUND_LIMIT)).scalars().all()


def away(conn: sa.Connection) -> Sequence[str]:
    """Return the minions with an agent that is down."""
    by_ssh = sa.select(SSH_HOSTS.c.id)
    query = sa.select(MINIONS.c.id).where(MINIONS.c.up == sa.false(), MINIONS.c.last_seen > 0)
    query = query.where(MINIONS.c.id.not_in(by_ssh))
    return conn.execute(query.limit(_FOUND_LIMIT)).scalars().all()


def drop_sessions(conn: sa.Connection, before: float) -> int:
    """Delete sessions of ended agents, a batch at a time; return how many.

    Args:
        conn: the running transaction.
        before: start of the oldest session that stays, seconds since the epoch.
    """
    live = sa.select(MINIONS.c.session).where(MINIONS.c.id == SESSIONS.c.minion)
    old = sa.select(SESSIONS.c.minion, SESSIONS.c.session).where(
        SESSIONS.c.at < before, SESSIONS.c.session.not_in(live.scalar_subquery())
    )
    found = conn.execute(old.limit(_SESSIONS_BATCH)).all()
    if not found:
        return 0
    key = sa.tuple_(SESSIONS.c.minion, SESSIONS.c.session)
    change = sa.delete(SESSIONS).where(key.in_([tuple(row) for row in found]))
    return conn.execute(change).rowcount


def minion(conn: sa.Connection, hello: Hello, address: str, now: float) -> bool:
    """Store the content of a Hello; return whether the minion came up by it."""
    values = {
        "machine_id": hello.machine_id,
        "version": hello.version[:64],
        "boot_id": hello.boot_id,
        "session": hello.session,
        "address": address,
        "grains": own_grains(hello.id, hello.grains),
        "pending_resume": hello.pending_resume,
        "wire": min(max(hello.wire, 1), _WIRE_LIMIT),
        "last_seen": now,
    }
    query = sa.select(MINIONS.c.up, MINIONS.c.boot_id).where(MINIONS.c.id == hello.id)
    found = conn.execute(query).one_or_none()
    came_up = found is None or not found.up
    # A host may boot before its silence is noticed; nevertheless it was down in between.
    if found is None or not found.up or found.boot_id not in ("", hello.boot_id):
        values |= {"up": True, "since": now}
    if found is None:
        conn.execute(sa.insert(MINIONS).values(id=hello.id, **values))
    else:
        conn.execute(sa.update(MINIONS).where(MINIONS.c.id == hello.id).values(values))
    return came_up


def caller(conn: sa.Connection, hello: Hello, address: str, now: float) -> None:
    """Store the grains of a host that only sends requests (`catena call` without a daemon)."""
    kept = own_grains(hello.id, hello.grains)
    values: dict[str, Any] = {"grains": kept, "last_seen": now}
    if conn.execute(sa.update(MINIONS).where(MINIONS.c.id == hello.id).values(values)).rowcount:
        return
    values |= {"machine_id": hello.machine_id, "address": address, "since": now, "up": False}
    conn.execute(sa.insert(MINIONS).values(id=hello.id, **values))


def grains(conn: sa.Connection, name: str, data: dict[str, Any], now: float) -> None:
    """Store grains that a minion has collected."""
    change = sa.update(MINIONS).where(MINIONS.c.id == name)
    conn.execute(change.values(grains=own_grains(name, data), last_seen=now))


def new_session(conn: sa.Connection, name: str, session: str, now: float) -> bool:
    """Store an agent process; return False if it was known."""
    rule = (SESSIONS.c.minion == name) & (SESSIONS.c.session == session)
    if conn.execute(sa.select(SESSIONS.c.at).where(rule)).first() is not None:
        return False
    conn.execute(sa.insert(SESSIONS).values(minion=name, session=session, at=now))
    return True


def seen(conn: sa.Connection, names: Collection[str], now: float) -> None:
    """Store when minions were last heard."""
    every = list(names)
    for start in range(0, len(every), _SLICE):
        rule = MINIONS.c.id.in_(padded(every[start : start + _SLICE]))
        conn.execute(sa.update(MINIONS).where(rule).values(last_seen=now))


def down(conn: sa.Connection, names: Collection[str], now: float) -> list[str]:
    """Mark minions as down; return those that were up."""
    rule = MINIONS.c.id.in_(padded(names)) & MINIONS.c.up
    changed = [row.id for row in conn.execute(sa.select(MINIONS.c.id).where(rule))]
    if changed:
        change = sa.update(MINIONS).where(MINIONS.c.id.in_(padded(changed)))
        conn.execute(change.values(up=False, since=now))
    return sorted(changed)


def conflict(conn: sa.Connection, name: str, why: str, now: float) -> None:
    """Store why a second claimant of an identity was refused, for lists."""
    values = {"conflict": why, "conflict_at": now}
    if not conn.execute(sa.update(MINIONS).where(MINIONS.c.id == name).values(values)).rowcount:
        row = {"id": name, "since": now, "last_seen": 0.0, **values}
        conn.execute(sa.insert(MINIONS).values(row))

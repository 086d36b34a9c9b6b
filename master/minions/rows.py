"""Queries on minions and their sessions; each runs in the transaction of its caller."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from catena.core import run_ref
from catena.master.store.lists import padded
from catena.master.store.tables import MINIONS, SESSIONS
from catena.transport.messages import Hello
from catena.transport.messages.session import NAMED_RUNS

#: A refused claimant asks again every minute; a conflict older than this is over.
CONFLICT_SECONDS = 300.0
_SLICE = 5000
#: The number of a Hello's wire is untrusted.
_WIRE_LIMIT = 1_000_000


def own_grains(name: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return a minion's grains with its true id: targets and pillar templates ask them for it."""
    return {**data, "id": name}


def resumable(wire: int, pending: Mapping[str, Any]) -> dict[str, int]:
    """Return the keywords that name a waiting run to `mgractionchains.resume`.

    {} where nothing waits, or where the agent does not take them: the resume is then about the
    run that the minion's resume file names.

    Args:
        wire: what the agent understands (`transport.messages.session.AGENT_WIRE`).
        pending: what it says of its resume file; untrusted.
    """
    run = run_ref.named(pending) if wire >= NAMED_RUNS else None
    return {"actionchain_id": run.chain_id, "epoch": run.epoch or 0} if run else {}


def up(conn: sa.Connection) -> list[str]:
    """Return the minions that are up."""
    return [row.id for row in conn.execute(sa.select(MINIONS.c.id).where(MINIONS.c.up))]


def minion(conn: sa.Connection, hello: Hello, address: str, now: float) -> bool:
    """Store what a Hello says; return whether the minion came up by it."""
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
    # A host may boot faster than its silence is noticed: it was down in between all the same.
    if found is None or not found.up or found.boot_id not in ("", hello.boot_id):
        values |= {"up": True, "since": now}
    if found is None:
        conn.execute(sa.insert(MINIONS).values(id=hello.id, **values))
    else:
        conn.execute(sa.update(MINIONS).where(MINIONS.c.id == hello.id).values(values))
    return came_up


def caller(conn: sa.Connection, hello: Hello, address: str, now: float) -> None:
    """Store the grains of a host that only asks (`catena call` without a daemon)."""
    kept = own_grains(hello.id, hello.grains)
    values: dict[str, Any] = {"grains": kept, "last_seen": now}
    if conn.execute(sa.update(MINIONS).where(MINIONS.c.id == hello.id).values(values)).rowcount:
        return
    values |= {"machine_id": hello.machine_id, "address": address, "since": now, "up": False}
    conn.execute(sa.insert(MINIONS).values(id=hello.id, **values))


def grains(conn: sa.Connection, name: str, data: dict[str, Any], now: float) -> None:
    """Store grains that a minion collected anew."""
    change = sa.update(MINIONS).where(MINIONS.c.id == name)
    conn.execute(change.values(grains=own_grains(name, data), last_seen=now))


def new_session(conn: sa.Connection, name: str, session: str, now: float) -> bool:
    """Remember an agent process; False when it was known."""
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
    """Keep why a second claimant of an identity was refused, for the lists."""
    values = {"conflict": why, "conflict_at": now}
    if not conn.execute(sa.update(MINIONS).where(MINIONS.c.id == name).values(values)).rowcount:
        row = {"id": name, "since": now, "last_seen": 0.0, **values}
        conn.execute(sa.insert(MINIONS).values(row))

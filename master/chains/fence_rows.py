"""Queries on fences: runs that minions have to forget. Each runs in its caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import sqlalchemy as sa

from catena.core.job import JobReturn
from catena.core.run_ref import RunRef
from catena.master.chains.fence_rules import Fence
from catena.master.store.chain_tables import CHAINS, RUNS
from catena.master.store.tables import MINIONS
from catena.transport.messages.session import NAMED_RUNS

_WHY_LIMIT = 2000
_OWED = RUNS.c.fence == sa.true()


def _fences() -> sa.Select[Any]:
    """Return the query for fences, with what each minion's agent understands."""
    newer = RUNS.alias()
    replaced = (
        sa.exists()
        .where(newer.c.chain_id == RUNS.c.chain_id, newer.c.minion == RUNS.c.minion)
        .where(newer.c.epoch > RUNS.c.epoch)
    )
    return (
        sa.select(RUNS, sa.func.coalesce(MINIONS.c.wire, 1).label("wire"))
        .add_columns(replaced.label("replaced"))
        .outerjoin(MINIONS, MINIONS.c.id == RUNS.c.minion)
        .where(_OWED)
    )


# Built once: every tick of the scheduler asks, and building costs more than running it.
_FENCES = _fences()


def of_run(run: RunRef, minion: str) -> sa.ColumnElement[bool]:
    """Return the rule that picks a run of a minion."""
    rule = (RUNS.c.chain_id == run.chain_id) & (RUNS.c.epoch == run.epoch)
    return rule & (RUNS.c.minion == minion)


def owe(conn: sa.Connection, rule: sa.ColumnElement[bool]) -> None:
    """Have the minions of the runs that *rule* picks forget them."""
    conn.execute(sa.update(RUNS).where(rule).values(fence=True))


def owed(conn: sa.Connection) -> dict[str, list[Fence]]:
    """Return what minions have to forget and have not, by minion."""
    found: defaultdict[str, list[Fence]] = defaultdict(list)
    for row in conn.execute(_FENCES):
        # What runs over SSH came from this master.
        named = row.over_ssh or row.wire >= NAMED_RUNS
        run = RunRef(row.chain_id, row.epoch)
        fence = Fence(run, row.minion, row.fence_jid, row.fence_tries, named, bool(row.replaced))
        found[row.minion].append(fence)
    return dict(found)


def sent(conn: sa.Connection, fence: Fence, jid: str) -> None:
    """Keep that job *jid* is to make a minion forget a run."""
    conn.execute(sa.update(RUNS).where(of_run(fence.run, fence.minion)).values(fence_jid=jid))


def drop(conn: sa.Connection, fence: Fence) -> None:
    """Give a fence up: nobody is left to be told, or something else ends the run there."""
    _settle(conn, of_run(fence.run, fence.minion))


def returned(conn: sa.Connection, minion: str, ret: JobReturn, why: str, now: float) -> None:
    """Take in the return of a job that ended runs on a minion.

    Args:
        conn: the running transaction.
        minion: who returned.
        ret: what came.
        why: why it failed, for people.
        now: wall clock.
    """
    rule = _OWED & (RUNS.c.minion == minion)
    mine = rule & (RUNS.c.fence_jid == ret.jid)
    if ret.success:
        _settle(conn, mine)
        # Somebody may have cured what hindered the others, by hand.
        again(conn, minion)
        return
    _fail(conn, mine, why, now)


def undelivered(conn: sa.Connection, minion: str, jid: str, why: str, now: float) -> bool:
    """Take in that a job ended without a return; return whether it was a fence's."""
    rule = _OWED & (RUNS.c.minion == minion) & (RUNS.c.fence_jid == jid)
    return _fail(conn, rule, why, now)


def again(conn: sa.Connection, minion: str) -> None:
    """Have the failed fences of a minion tried at once: something has changed there."""
    rule = _OWED & (RUNS.c.minion == minion) & (RUNS.c.fence_tries > 0)
    conn.execute(sa.update(RUNS).where(rule).values(fence_tries=0))


def unsent(chain_id: int, conn: sa.Connection) -> bool:
    """Return whether no job is stored yet that makes a minion forget its run of a chain."""
    rule = _OWED & (RUNS.c.chain_id == chain_id) & (RUNS.c.fence_jid == "")
    return conn.execute(sa.select(RUNS.c.minion).where(rule).limit(1)).first() is not None


def failed(conn: sa.Connection, chain_id: int = 0) -> list[sa.Row[Any]]:
    """Return the runs (of one chain) that their minions could not forget, with their labels."""
    query = (
        sa.select(RUNS, CHAINS.c.label)
        .join(CHAINS, CHAINS.c.id == RUNS.c.chain_id)
        .where(_OWED, RUNS.c.fence_why != "")
        .order_by(RUNS.c.chain_id, RUNS.c.epoch, RUNS.c.minion)
    )
    if chain_id:
        query = query.where(RUNS.c.chain_id == chain_id)
    return list(conn.execute(query).all())


def _settle(conn: sa.Connection, rule: sa.ColumnElement[bool]) -> None:
    values = {"fence": False, "fence_jid": "", "fence_tries": 0, "fence_at": 0.0, "fence_why": ""}
    conn.execute(sa.update(RUNS).where(rule).values(values))


def _fail(conn: sa.Connection, rule: sa.ColumnElement[bool], why: str, now: float) -> bool:
    values: dict[str, Any] = {"fence_jid": "", "fence_at": now, "fence_why": why[:_WHY_LIMIT]}
    values["fence_tries"] = RUNS.c.fence_tries + 1
    return conn.execute(sa.update(RUNS).where(rule).values(values)).rowcount > 0

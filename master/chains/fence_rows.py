"""Queries on fences: ended runs that minions still have to remove.

Each query runs in its caller's transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from catena.core.job import JobReturn
from catena.core.run_ref import RunRef
from catena.master.chains import rows
from catena.master.chains.fence_rules import Fence
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import MinionEvent, MinionState
from catena.master.chains.model import ChainMinion
from catena.master.chains.returned import error_text
from catena.master.chains.returned import refused as is_refusal
from catena.master.executions.ledger import besides_state
from catena.master.jobs.delivery import OPEN
from catena.master.store.chain_tables import CHAIN_MINIONS, LIVE
from catena.master.store.execution_tables import RUNS
from catena.master.store.lists import padded, slices
from catena.master.store.tables import DELIVERIES, MINIONS
from catena.transport.messages.session import NAMED_RUNS

#: Maximum length of a stored error, characters.
_WHY_LIMIT = 2000
_STILL_THERE = "the minion reported that it removed the run, but still has its resume file"
_NO_ANSWER = "its job has ended without the return of a removal"
_OWED = LIVE & (CHAIN_MINIONS.c.state == MinionState.fenced.value)
#: The minion has answered that it can't remove the run.
_REFUSED = CHAIN_MINIONS.c.fence_at > 0
_FENCED = rows.MINION_ROWS.where(_OWED)
_UNANSWERED = _FENCED.where(
    CHAIN_MINIONS.c.fence_jid != "",
    sa.not_(
        sa.exists().where(
            DELIVERIES.c.jid == CHAIN_MINIONS.c.fence_jid,
            DELIVERIES.c.minion == CHAIN_MINIONS.c.minion,
            DELIVERIES.c.state.in_([state.value for state in OPEN]),
        )
    ),
)
_OF_MINION = _FENCED.where(CHAIN_MINIONS.c.minion == sa.bindparam("b_minion"))


def _fences() -> sa.Select[Any]:
    """Return the query for fences, with the protocol version of each minion's agent."""
    newer = CHAIN_MINIONS.alias()
    newer_run = RUNS.alias()
    replaced = (
        sa.select(newer.c.id)
        .join(newer_run, newer_run.c.id == newer.c.run)
        .where(newer.c.minion == CHAIN_MINIONS.c.minion)
        .where(newer_run.c.engine == RUNS.c.engine, newer_run.c.ref == RUNS.c.ref)
        .where(newer_run.c.epoch > RUNS.c.epoch)
        .exists()
    )
    return (
        _FENCED.add_columns(sa.func.coalesce(MINIONS.c.wire, 1).label("wire"))
        .add_columns(replaced.label("replaced"))
        .outerjoin(MINIONS, MINIONS.c.id == CHAIN_MINIONS.c.minion)
    )


# Built once: every tick of the scheduler runs them, and building costs more than running.
_FENCES = _fences()
_REFUSED_FENCES = _FENCES.where(_REFUSED)
_REFUSED_OF = _REFUSED_FENCES.where(
    CHAIN_MINIONS.c.minion.in_(sa.bindparam("b_minions", expanding=True))
)


def pending(conn: sa.Connection) -> dict[str, list[Fence]]:
    """Return minion -> the runs that it still has to remove."""
    found: defaultdict[str, list[Fence]] = defaultdict(list)
    for row in conn.execute(_FENCES):
        found[row.minion].append(_fence(row))
    return dict(found)


def is_pending(conn: sa.Connection, run: RunRef, minion: str) -> bool:
    """Return whether a minion still has to remove a run."""
    found = rows.run_of(conn, run, minion)
    return found is not None and found.state == MinionState.fenced


def any_refused() -> sa.Select[Any]:
    """Return the query that finds a row if any minion has refused to remove a run."""
    return sa.select(sa.literal(1)).where(_OWED, _REFUSED).select_from(CHAIN_MINIONS)


def refused(conn: sa.Connection, minions: Collection[str]) -> dict[str, list[Fence]]:
    """Return minion -> the runs that it has refused to remove.

    Args:
        conn: the running transaction.
        minions: the minions asked about; (): all.
    """
    found: defaultdict[str, list[Fence]] = defaultdict(list)
    if not minions:
        for row in conn.execute(_REFUSED_FENCES):
            found[row.minion].append(_fence(row))
    for some in slices(list(minions), rows.SLICE):
        for row in conn.execute(_REFUSED_OF, {"b_minions": padded(some)}):
            found[row.minion].append(_fence(row))
    return dict(found)


def _fence(row: sa.Row[Any]) -> Fence:
    return Fence(
        RunRef(row.chain_id, row.epoch),
        row.minion,
        row.fence_jid,
        row.fence_tries,
        # What runs over SSH came from this master.
        named=row.over_ssh or row.wire >= NAMED_RUNS,
        replaced=bool(row.replaced),
        refused=row.fence_at > 0,
        label=row.label,
        why=row.fence_why,
    )


def forget(ledger: ChainLedger, run: RunRef, minion: str) -> None:
    """Make a minion remove a run that has ended here, if the minion still reports it.

    If the minion has already reported the removal, the next job waits longer.
    """
    found = rows.run_of(ledger.conn, run, minion)
    if found is None or not found.over or found.state == MinionState.fenced:
        return
    ledger.fence(found)
    if found.fence_tries:
        _set(ledger.conn, [found], fence_why=_STILL_THERE, fence_at=ledger.now.wall)


def forget_job(ledger: ChainLedger, jid: str, minion: str) -> None:
    """Make a minion remove the run that a job starts, if the job starts one."""
    found = rows.run_by_jid(ledger.conn, jid, minion)
    if found is not None:
        ledger.fence(found)


def sent(conn: sa.Connection, fence: Fence, jid: str) -> None:
    """Store that job *jid* makes a minion remove a run."""
    run = rows.run_of(conn, fence.run, fence.minion)
    if run is not None:
        _set(conn, [run], fence_jid=jid)


def drop(ledger: ChainLedger, fence: Fence) -> None:
    """Drop a fence whose minion has no key any more, or has a newer run instead."""
    run = rows.run_of(ledger.conn, fence.run, fence.minion)
    if run is not None and run.state == MinionState.fenced:
        _store_removal(ledger, run)


def returned(ledger: ChainLedger, minion: str, ret: JobReturn) -> None:
    """Apply the return of a job that removed runs from a minion.

    Args:
        ledger: of the running transaction.
        minion: the minion that returned.
        ret: the return.
    """
    mine = [run for run in _of(ledger.conn, minion) if run.fence_jid == ret.jid]
    if not ret.success:
        _fail(ledger, mine, error_text(ret), by_minion=is_refusal(ret))
        return
    for run in mine:
        _store_removal(ledger, run)
    # A person may have removed the cause that made the other fences fail.
    retry_now(ledger.conn, minion)


def undelivered(ledger: ChainLedger, minion: str, jid: str, why: str) -> bool:
    """Apply that a job ended without a return; return whether it was a job of a fence."""
    mine = [run for run in _of(ledger.conn, minion) if run.fence_jid == jid]
    _fail(ledger, mine, why)
    return bool(mine)


def unanswered(conn: sa.Connection) -> list[ChainMinion]:
    """Return the runs whose removal job has ended without telling what became of the run.

    Both happens in one transaction, unless the minion returned another function than the job's.
    """
    return rows.minion_runs(conn, _UNANSWERED)


def fail_unanswered(ledger: ChainLedger) -> None:
    """Count the removal jobs of `unanswered` as failed, so that the next ones are sent."""
    _fail(ledger, unanswered(ledger.conn), _NO_ANSWER)


def retry_now(conn: sa.Connection, minion: str) -> None:
    """Make the failed fences of a minion due at once, because something has changed there."""
    rule = _OWED & (CHAIN_MINIONS.c.minion == minion) & (CHAIN_MINIONS.c.fence_tries > 0)
    conn.execute(sa.update(CHAIN_MINIONS).where(rule).values(fence_tries=0))


def of_chain(conn: sa.Connection, chain_id: int) -> list[ChainMinion]:
    """Return the runs of a chain that minions have to remove, the oldest first."""
    query = _FENCED.where(RUNS.c.engine == rows.ENGINE, RUNS.c.ref == str(chain_id))
    return rows.minion_runs(conn, query.order_by(RUNS.c.epoch))


def unsent(chain_id: int, conn: sa.Connection) -> bool:
    """Return whether a fence of a chain has no job yet."""
    return any(not run.fence_jid for run in of_chain(conn, chain_id))


def failed(conn: sa.Connection, chain_id: int = 0) -> list[ChainMinion]:
    """Return the runs (of one chain) that their minions could not remove."""
    query = _FENCED.where(CHAIN_MINIONS.c.fence_why != "")
    if chain_id:
        query = query.where(RUNS.c.engine == rows.ENGINE, RUNS.c.ref == str(chain_id))
    return rows.minion_runs(conn, query.order_by(RUNS.c.id, CHAIN_MINIONS.c.minion))


def _of(conn: sa.Connection, minion: str) -> list[ChainMinion]:
    return rows.minion_runs(conn, _OF_MINION, {"b_minion": minion})


def _store_removal(ledger: ChainLedger, run: ChainMinion) -> None:
    # Counted as a try, so that a minion that still reports the run is not asked again at once.
    values = {"fence_jid": "", "fence_why": "", "fence_at": 0.0}
    values["fence_tries"] = run.fence_tries + 1
    ledger.move_minion(run, MinionEvent.forget, values)


def _fail(
    ledger: ChainLedger, runs: Sequence[ChainMinion], why: str, *, by_minion: bool = False
) -> None:
    """Store why runs could not be removed. Only another refusal replaces a refusal's reason."""
    tries = CHAIN_MINIONS.c.fence_tries + 1
    for run in runs:
        values: dict[str, Any] = {"fence_jid": "", "fence_tries": tries}
        if by_minion:
            values["fence_at"] = ledger.now.wall
        if by_minion or not run.fence_at:
            values["fence_why"] = why[:_WHY_LIMIT]
        _set(ledger.conn, [run], **values)


def _set(conn: sa.Connection, runs: Sequence[ChainMinion], **values: Any) -> None:
    for run in runs:
        rule = CHAIN_MINIONS.c.id == run.id
        conn.execute(sa.update(CHAIN_MINIONS).where(rule).values(besides_state(values)))

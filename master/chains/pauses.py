"""Pauses of chains: nothing further of a paused run is sent until a person continues it.

A pause is stored with the run. Where a run is paused, a job that starts or resumes it is stored
but not sent (`holds`).

A minion gets a chunk as one job, and completes the chunk that it has received: a pause holds
between chunks, not between the actions inside one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sqlalchemy as sa

from catena.core.chain_calls import RESUME
from catena.core.errors import InvalidStateError, NotFoundError
from catena.core.job import FunctionCall
from catena.core.suggest import unknown
from catena.master.chains import pause_rows
from catena.master.chains.dependencies import ChainParts, JobService
from catena.master.chains.drafts import due_now
from catena.master.chains.holds import ChainHolds, pause_text, pauses_of
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import ENDED_CHAINS, ChainState
from catena.master.chains.model import ChainRecord
from catena.master.chains.pause_rows import Stranded, WorkJob
from catena.master.executions import pauses
from catena.master.executions.model import Suspension
from catena.master.executions.pauses import EVERYWHERE
from catena.master.jobs.delivery import Delivery
from catena.master.jobs.model import JobRequest


def continue_command(chain_id: int, pause: Suspension) -> str:
    """Return the command that ends a pause."""
    where = f" --minion {pause.minion}" if pause.minion else ""
    return f"catena chain continue {chain_id}{where}"


# -- requests ----------------------------------------------------------------------------------


def pause(ledger: ChainLedger, jobs: JobService, row: ChainRecord, names: Collection[str]) -> None:
    """Pause the newest run of a chain, on all or some minions; a repetition changes nothing.

    Args:
        ledger: of the running transaction.
        jobs: pauses the deliveries that no minion has received yet.
        row: the chain.
        names: minions; (): all.

    Raises:
        InvalidStateError: the chain is a draft, or the run has ended, there or on all minions.
        NotFoundError: the chain has no action on one of the minions.
    """
    if row.run is None:
        raise InvalidStateError(f"can't pause {row.title}: it is a draft and does not run")
    if ChainState(row.state) in ENDED_CHAINS:
        raise InvalidStateError(f"can't pause {row.title}: it is {row.state} and has ended")
    _check(ledger, row, names)
    known = pauses.of_run(ledger.conn, row.run)
    new = [name for name in dict.fromkeys(names or (EVERYWHERE,)) if not pauses.on(known, name)]
    if not new:
        return
    if not names:
        pauses.lift(ledger.conn, row.run)
    now = ledger.now.wall
    pauses.suspend(ledger.conn, [Suspension(row.run, name, ledger.who, now) for name in new])
    ledger.note_chain(row, "paused", _places(names))
    for work in pause_rows.jobs(ledger.conn, row.run, Delivery.queued, names):
        found = pauses_of(ledger.conn, work.spec, (work.minion,))
        if found:
            jobs.pause_in(ledger.conn, work.spec.jid, work.minion, pause_text(found[work.minion]))


def continue_(
    ledger: ChainLedger, parts: ChainParts, row: ChainRecord, names: Collection[str]
) -> None:
    """Continue the newest run of a chain, on all or some minions.

    Args:
        ledger: of the running transaction.
        parts: what chains work with; their jobs send the paused jobs.
        row: the chain.
        names: minions; (): all on which the run is paused.

    Raises:
        InvalidStateError: the run is not paused, or not on one of the minions.
        NotFoundError: the chain has no action on one of the minions.
    """
    known = pauses.of_run(ledger.conn, row.run)
    if row.run is None or not known:
        raise InvalidStateError(f"{row.title} is not paused")
    _check(ledger, row, names)
    for name in names:
        if pauses.on(known, name) is None:
            raise InvalidStateError(f"{row.title} is not paused on {name}")
    everywhere = pauses.on(known, EVERYWHERE)
    pauses.lift(ledger.conn, row.run, [*names, EVERYWHERE] if names else ())
    if names and everywhere is not None:
        rest = [name for name in pause_rows.minions(ledger.conn, row.run) if name not in names]
        pauses.suspend(ledger.conn, [everywhere._replace(minion=name) for name in rest])
    late = row.state == ChainState.scheduled.value and (row.due or 0.0) < ledger.now.wall
    if everywhere is not None and late:
        # The run became due during the pause; the person who continues it makes it due now.
        pause_rows.set_due(ledger.conn, row, due_now(ledger))
    ledger.note_chain(row, "continued", _places(names))
    held = pause_rows.jobs(ledger.conn, row.run, Delivery.paused, names)
    hand_over(ledger.conn, parts, held)


async def resume_stranded(parts: ChainParts, run: int | None, names: Collection[str]) -> None:
    """Submit a resume on each minion where a continued run could go on but no job resumes it.

    The reaction to the minion's start may have been lost during the pause, or its job have ended.
    """
    for each in await parts.store.read(lambda conn: pause_rows.stranded(conn, run, names)):
        await parts.jobs.submit(_resume(each))


def hand_over(
    conn: sa.Connection, parts: ChainParts, held: Iterable[WorkJob], *, prolong: bool = True
) -> list[WorkJob]:
    """Send jobs that nothing holds back any more; return them.

    Args:
        conn: the running transaction.
        parts: what chains work with.
        held: jobs that were held back.
        prolong: give them the delivery time of new jobs, beginning now.
    """
    holds, sent = ChainHolds.of(parts), []
    for work in held:
        why = holds.paused(conn, work.spec, (work.minion,))
        if why:
            # The reason may have changed.
            parts.jobs.pause_in(conn, work.spec.jid, work.minion, why[work.minion])
        else:
            parts.jobs.continue_in(conn, work.spec.jid, work.minion, prolong=prolong)
            sent.append(work)
    return sent


def _resume(each: Stranded) -> JobRequest:
    run = {"actionchain_id": each.run.chain_id, "epoch": each.run.epoch}
    metadata = {"suma-action-chain": True}
    call = FunctionCall(RESUME, kwargs=run if each.named else {}, metadata=metadata)
    return JobRequest("root", call, minions=(each.minion,))


def _check(ledger: ChainLedger, row: ChainRecord, names: Collection[str]) -> None:
    """Check that a run has open executions on the named minions.

    Raises:
        NotFoundError: the run has no action on one of them.
        InvalidStateError: the run has ended on one of them.
    """
    known = pause_rows.minions(ledger.conn, row.run) if names else {}
    for name in names:
        if name not in known:
            raise NotFoundError(f"{row.title}: {unknown('minion', name, list(known))}")
        if not known[name]:
            raise InvalidStateError(f"{row.title} has ended on {name}")


def _places(names: Collection[str]) -> str:
    return f"on {', '.join(names)}" if names else ""

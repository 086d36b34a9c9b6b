"""Pauses of chains: nothing further of a paused run is sent until a person continues it.

A pause is stored with the run. Where a run is paused, a job that starts or resumes it is stored
but not sent, and its delivery is `paused`. This one rule applies to jobs from any source (a due
time, the reaction to a minion's start, a host over SSH that has become known, a person), and
across restarts of the master.

A minion completes the chunk that it has received.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from catena.core.chain_calls import RESUME, START
from catena.core.errors import InvalidStateError, NotFoundError
from catena.core.job import FunctionCall, JobSpec
from catena.core.suggest import unknown
from catena.master.chains import pause_rows
from catena.master.chains.dependencies import ChainParts, JobService
from catena.master.chains.drafts import due_now
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.lifecycle import ENDED_CHAINS, ChainState
from catena.master.chains.model import ChainRecord
from catena.master.chains.pause_rows import Stranded, WorkJob
from catena.master.executions import pauses
from catena.master.executions.model import Suspension
from catena.master.executions.pauses import EVERYWHERE
from catena.master.jobs.delivery import Delivery
from catena.master.jobs.model import JobRequest

_ARGUMENTS = ("actionchain_id", "epoch")


class ChainHolds:
    """Holds back the jobs of paused chains (`job_model.Holds`)."""

    def paused(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> Mapping[str, str]:
        """Return those of *minions* on which the chain of a job is paused, with the reasons."""
        if spec.fun not in (START, RESUME) or not pauses.is_any(conn):
            return {}
        number = _chain_of(spec)
        if number:
            of_run = pauses.of_run(conn, pause_rows.unended(conn, number))
            found = {minion: pauses.on(of_run, minion) for minion in minions}
        else:
            # A resume without arguments, as before runs had names, is about the run that has
            # begun.
            found = {minion: _pause_of_head(conn, minion) for minion in minions}
        return {name: told(pause) for name, pause in found.items() if pause is not None}


def _pause_of_head(conn: sa.Connection, minion: str) -> Suspension | None:
    run = pause_rows.head(conn, minion)
    return None if run is None else pauses.on(pauses.of_run(conn, run.run), minion)


def _chain_of(spec: JobSpec) -> int:
    """Return the number of the chain that a job names; 0 if there is none or it is invalid."""
    given: dict[str, Any] = {**dict(zip(_ARGUMENTS, spec.args, strict=False)), **spec.kwargs}
    try:
        number = int(given.get("actionchain_id", 0))
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 < number < 2**63 else 0


def told(pause: Suspension) -> str:
    """Return a pause as text."""
    at = datetime.fromtimestamp(pause.at).astimezone()
    return f"paused by {pause.who} since {at:%Y-%m-%d %H:%M:%S}"


def cure(chain_id: int, pause: Suspension) -> str:
    """Return the command that ends a pause."""
    where = f" --minion {pause.minion}" if pause.minion else ""
    return f"catena chain continue {chain_id}{where}"


# -- what people ask ---------------------------------------------------------------------------


def pause(ledger: ChainLedger, jobs: JobService, row: ChainRecord, names: Collection[str]) -> None:
    """Pause the newest run of a chain, everywhere or on minions; again it changes nothing.

    Args:
        ledger: of the running transaction.
        jobs: hold back the jobs that no minion has yet.
        row: the chain.
        names: minions; (): everywhere.

    Raises:
        InvalidStateError: it is a draft, or it has ended, there or everywhere.
        NotFoundError: it has no action on one of the minions.
    """
    if row.run is None:
        raise InvalidStateError(f"{row.title} is a draft: nothing of it runs that could be paused")
    if ChainState(row.state) in ENDED_CHAINS:
        raise InvalidStateError(f"{row.title} is {row.state}: nothing of it is left to pause")
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
        why = ChainHolds().paused(ledger.conn, work.spec, (work.minion,))
        if why:
            jobs.pause_in(ledger.conn, work.spec.jid, work.minion, why[work.minion])


def go_on(ledger: ChainLedger, jobs: JobService, row: ChainRecord, names: Collection[str]) -> None:
    """Continue the newest run of a chain, everywhere or on minions.

    Args:
        ledger: of the running transaction.
        jobs: hand over what was held back.
        row: the chain.
        names: minions; (): wherever it is paused.

    Raises:
        InvalidStateError: it is not paused, or not there.
        NotFoundError: it has no action on one of the minions.
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
        # Its time came while it was paused: that time is over, and a person has given another.
        pause_rows.set_due(ledger.conn, row, due_now(ledger))
    ledger.note_chain(row, "continued", _places(names))
    _hand_over(ledger.conn, jobs, pause_rows.jobs(ledger.conn, row.run, Delivery.paused, names))


async def resume_stranded(parts: ChainParts, run: int | None, names: Collection[str]) -> None:
    """Order a resume where a continued run could go on and nobody else has ordered one.

    The reaction to the minion's start may have been lost, or its job have ended, meanwhile.
    """
    for each in await parts.store.read(lambda conn: pause_rows.stranded(conn, run, names)):
        await parts.jobs.submit(_resume(each))


async def release(parts: ChainParts) -> None:
    """Hand over jobs that were held back for a pause which is no more: its run has ended."""
    if await parts.store.read(_lapsed):
        await parts.change(
            lambda ledger: _hand_over(ledger.conn, parts.jobs, _lapsed(ledger.conn))
        )


def _lapsed(conn: sa.Connection) -> list[WorkJob]:
    return [work for work in pause_rows.paused_jobs(conn) if not _is_held(conn, work)]


def _is_held(conn: sa.Connection, work: WorkJob) -> bool:
    return bool(ChainHolds().paused(conn, work.spec, (work.minion,)))


def _hand_over(conn: sa.Connection, jobs: JobService, found: Iterable[WorkJob]) -> None:
    for work in found:
        if not _is_held(conn, work):
            jobs.continue_in(conn, work.spec.jid, work.minion)


def _resume(each: Stranded) -> JobRequest:
    run = {"actionchain_id": each.run.chain_id, "epoch": each.run.epoch}
    metadata = {"suma-action-chain": True}
    call = FunctionCall(RESUME, kwargs=run if each.named else {}, metadata=metadata)
    return JobRequest("root", call, minions=(each.minion,))


def _check(ledger: ChainLedger, row: ChainRecord, names: Collection[str]) -> None:
    """Check that something of a run is open on minions that were named.

    Raises:
        NotFoundError: it has no action there.
        InvalidStateError: it has ended there.
    """
    known = pause_rows.minions(ledger.conn, row.run) if names else {}
    for name in names:
        if name not in known:
            raise NotFoundError(f"{row.title}: {unknown('minion', name, list(known))}")
        if not known[name]:
            raise InvalidStateError(f"{row.title} has ended on {name}")


def _places(names: Collection[str]) -> str:
    return f"on {', '.join(names)}" if names else ""

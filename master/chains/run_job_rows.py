"""Maps jobs to the runs of chains that they work on, on one minion.

The job that starts a run is stored with it. A job that resumes names its run in its arguments.
Without arguments (from a person, a site's own reaction, or for an older agent) it is about the run
in the minion's resume file, which its first report names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.core import run_ref
from catena.core.chain_calls import RUN_ACTIONS
from catena.core.job import JobReturn
from catena.core.run_ref import RunRef
from catena.master.chains import rows
from catena.master.jobs.delivery import OPEN
from catena.master.store.lists import padded, slices
from catena.master.store.tables import DELIVERIES, JOBS, PROGRESS

_OPEN = [state.value for state in OPEN]


@dataclass(frozen=True)
class ChainJob:
    """A job that starts or resumes a run and has not ended on its minion."""

    jid: str
    #: The run; None: the job is a resume that names no run and has reported nothing yet.
    run: RunRef | None
    #: Whether the job is being cancelled.
    stopping: bool = False


def open_jobs(conn: sa.Connection, minion: str) -> list[ChainJob]:
    """Return the jobs that start or resume runs on *minion* and have not ended."""
    query = (
        sa.select(DELIVERIES.c.jid, DELIVERIES.c.cancel)
        .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
        .where(DELIVERIES.c.minion == minion, DELIVERIES.c.state.in_(_OPEN))
        .where(JOBS.c.fun.in_(sorted(RUN_ACTIONS)))
        .order_by(DELIVERIES.c.jid)
    )
    return [
        ChainJob(row.jid, run_of(conn, row.jid, minion), bool(row.cancel))
        for row in conn.execute(query).all()
    ]


def with_open_jobs(conn: sa.Connection, minions: Collection[str]) -> set[str]:
    """Return those of *minions* that have a job that starts or resumes a run and has not ended."""
    query = (
        sa.select(DELIVERIES.c.minion)
        .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
        .where(DELIVERIES.c.state.in_(_OPEN), JOBS.c.fun.in_(sorted(RUN_ACTIONS)))
        .distinct()
    )
    found: set[str] = set()
    for some in slices(list(minions), rows.SLICE):
        found.update(conn.execute(query.where(DELIVERIES.c.minion.in_(padded(some)))).scalars())
    return found


def is_open(conn: sa.Connection, jid: str, minion: str) -> bool:
    """Return whether a job has not ended on *minion*."""
    rule = (DELIVERIES.c.jid == jid) & (DELIVERIES.c.minion == minion)
    state = conn.execute(sa.select(DELIVERIES.c.state).where(rule)).scalar()
    return state in _OPEN


def run_of(conn: sa.Connection, jid: str, minion: str) -> RunRef | None:
    """Return the run that a job starts or resumes on *minion*; None if it is not known yet."""
    started = rows.run_by_jid(conn, jid, minion)
    if started is not None:
        return RunRef(started.chain_id, started.epoch)
    return run_ref.named(_given(conn, jid)) or _reported(conn, jid, minion)


def names_something(conn: sa.Connection, jid: str) -> bool:
    """Return whether a resume has arguments, valid or not."""
    return bool(_given(conn, jid))


def _given(conn: sa.Connection, jid: str) -> Mapping[str, Any]:
    """Return the arguments of a resume by their names."""
    row = conn.execute(sa.select(JOBS.c.args, JOBS.c.kwargs).where(JOBS.c.jid == jid)).first()
    if row is None:
        return {}
    return {**dict(zip(("actionchain_id", "epoch"), row.args, strict=False)), **row.kwargs}


def run_of_return(conn: sa.Connection, ret: JobReturn, minion: str) -> RunRef | None:
    """Return the run that a return is about; None if neither job nor return names one."""
    known = run_of(conn, ret.jid, minion)
    if known is not None or len(ret.epochs) != 1:
        return known
    ((chain_id, epoch),) = ret.epochs.items()
    # Chain ids are shorter, and int() raises ValueError for thousands of digits.
    is_number = len(chain_id) < 20 and chain_id.isascii() and chain_id.isdigit()
    number = int(chain_id) if is_number else 0
    return run_ref.named({"actionchain_id": number, "epoch": epoch})


def _reported(conn: sa.Connection, jid: str, minion: str) -> RunRef | None:
    rule = (PROGRESS.c.jid == jid) & (PROGRESS.c.minion == minion) & (PROGRESS.c.kind == "action")
    query = sa.select(PROGRESS.c.data).where(rule).order_by(PROGRESS.c.seq.desc()).limit(1)
    data: Mapping[str, Any] = conn.execute(query).scalar() or {}
    return run_ref.named({"actionchain_id": data.get("chain_id"), "epoch": data.get("epoch")})


def to_stop(run: RunRef, jobs: Iterable[ChainJob]) -> list[str]:
    """Return the jids of the jobs of *run* that are not being cancelled yet."""
    return [job.jid for job in jobs if job.run == run and not job.stopping]


def is_worked_on(run: RunRef, jobs: Iterable[ChainJob]) -> bool:
    """Return whether one of *jobs* works on *run*, or may do so."""
    return any(job.run in (run, None) for job in jobs)

"""Pauses of runs, everywhere or on some minions, which last until a person continues the run.

The functions run in the transaction of their caller. Code that starts jobs for a run checks its
pauses first. A pause does not stop jobs that have begun.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import sqlalchemy as sa

from catena.master.executions.model import Suspension
from catena.master.store.execution_tables import PAUSES, RUNS
from catena.master.store.lists import padded, slices

#: Minion of a pause that holds everywhere.
EVERYWHERE = ""
_SLICE = 500
_ROWS = sa.select(PAUSES.c.run, PAUSES.c.minion, PAUSES.c.who, PAUSES.c.at)
_ORDER = (PAUSES.c.run, PAUSES.c.minion)
#: Finds a row if any run is paused.
ANY = sa.select(sa.literal(1)).select_from(PAUSES)
_ANY = ANY.limit(1)


def is_any(conn: sa.Connection) -> bool:
    """Return whether any run is paused; a quick check, since nearly always none is."""
    return conn.execute(_ANY).first() is not None


def suspend(conn: sa.Connection, suspensions: Iterable[Suspension]) -> None:
    """Store pauses; none of the runs may already be paused on the same minion."""
    values = [suspension._asdict() for suspension in suspensions]
    if values:
        conn.execute(sa.insert(PAUSES), values)


def lift(conn: sa.Connection, run: int, minions: Collection[str] = ()) -> None:
    """Remove all pauses of a run, or only those on *minions*."""
    rule = PAUSES.c.run == run
    if minions:
        rule &= PAUSES.c.minion.in_(list(minions))
    conn.execute(sa.delete(PAUSES).where(rule))


def of_runs(conn: sa.Connection, runs: Collection[int]) -> dict[int, tuple[Suspension, ...]]:
    """Return the pauses of runs, those everywhere first, then by minion."""
    found: defaultdict[int, list[Suspension]] = defaultdict(list)
    if not is_any(conn):
        return {}
    for some in slices(list(runs), _SLICE):
        query = _ROWS.where(PAUSES.c.run.in_(padded(some))).order_by(*_ORDER)
        for row in conn.execute(query):
            found[row.run].append(Suspension._make(row))
    return {run: tuple(pauses) for run, pauses in found.items()}


def of_run(conn: sa.Connection, run: int | None) -> tuple[Suspension, ...]:
    """Return the pauses of one run."""
    return () if run is None else of_runs(conn, [run]).get(run, ())


def on(pauses: Iterable[Suspension], minion: str) -> Suspension | None:
    """Return the pause that applies to a minion; None if there is none."""
    return next((each for each in pauses if each.minion in (EVERYWHERE, minion)), None)


def older(conn: sa.Connection, engine: str, before: float) -> list[Suspension]:
    """Return the pauses of an engine's runs that began before a time, the oldest first."""
    query = _ROWS.join(RUNS, RUNS.c.id == PAUSES.c.run)
    query = query.where(RUNS.c.engine == engine, PAUSES.c.at < before)
    return [Suspension._make(row) for row in conn.execute(query.order_by(PAUSES.c.at, *_ORDER))]


def is_nowhere(run: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Return the SQL condition that the run whose id is in a column is not paused everywhere."""
    held = (PAUSES.c.run == run) & (PAUSES.c.minion == EVERYWHERE)
    return sa.not_(sa.exists().where(held))

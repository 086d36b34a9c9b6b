"""Queries on greetings; every function runs inside somebody's transaction."""

from __future__ import annotations

from collections import defaultdict
from uuid import uuid4

import sqlalchemy as sa

from catena.master.executions import rows
from catena.master.executions.model import Execution, Run
from catena.master.process.clocks import ClockReading
from catena.master.store.execution_tables import EXECUTIONS, RUNS
from tests.support.greetings.asks import GreetingOrder
from tests.support.greetings.lifecycle import STATUSES, GreetingState
from tests.support.greetings.model import Greeting
from tests.support.greetings.tables import GREETINGS

ENGINE = "greetings"
_OURS = RUNS.c.engine == ENGINE
_WAITING = (
    sa.select(*rows.RUN_ROWS.selected_columns, *rows.EXECUTION_ROWS.selected_columns)
    .add_columns(GREETINGS.c.text)
    .join_from(RUNS, EXECUTIONS, EXECUTIONS.c.run == RUNS.c.id)
    .join(GREETINGS, GREETINGS.c.run == RUNS.c.id)
    .where(_OURS, RUNS.c.state == GreetingState.waiting.value, RUNS.c.ended.is_(None))
    .order_by(RUNS.c.id)
)
_WIDTH = len(Run._fields)


def insert(
    conn: sa.Connection,
    order: GreetingOrder,
    owner: str,
    now: ClockReading,
    state: GreetingState = GreetingState.waiting,
) -> int:
    """Store a greeting with its run and its execution; return the run's id."""
    shared = {"engine": ENGINE, "ref": uuid4().hex, "created": now.wall}
    status = STATUSES[state].value
    anchor = {"anchor_wall": now.wall, "anchor_mono": now.mono, "anchor_boot": now.boot}
    run = rows.insert_run(
        conn,
        {**shared, **anchor, "label": order.minion, "owner": owner, "state": state.value}
        | {"status": status},
    )
    here = {"run": run, "minion": order.minion, "position": 0, "epoch": 1}
    rows.insert_executions(conn, [{**shared, **here, "state": status, "status": status}])
    conn.execute(sa.insert(GREETINGS).values(run=run, text=order.text))
    return run


def waiting(conn: sa.Connection) -> dict[str, list[Greeting]]:
    """Return the greetings that wait, by minion."""
    found: defaultdict[str, list[Greeting]] = defaultdict(list)
    for row in conn.execute(_WAITING):
        run, execution = Run._make(row[:_WIDTH]), Execution._make(row[_WIDTH:-1])
        found[execution.minion or ""].append(Greeting(run, execution, row[-1]))
    return dict(found)


def execution(conn: sa.Connection, run: int) -> Execution:
    """Return the one execution of a run."""
    query = rows.EXECUTION_ROWS.where(EXECUTIONS.c.run == run)
    return rows.executions(conn, query)[0]


def drop(conn: sa.Connection, before: float, limit: int) -> int:
    """Delete runs that ended before *before* (epoch seconds), at most *limit*; return how many."""
    old = sa.select(RUNS.c.id).where(_OURS, RUNS.c.ended < before).limit(limit)
    found = conn.execute(old).scalars().all()
    conn.execute(sa.delete(RUNS).where(RUNS.c.id.in_(found)))
    return len(found)

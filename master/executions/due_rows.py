"""Queries on scheduled runs, and on the first clock reading of each boot."""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.executions import pauses, rows
from catena.master.executions.model import Run
from catena.master.process.clocks import ClockReading
from catena.master.store.execution_tables import CLOCKS, RUNS

_FIRST = sa.select(CLOCKS).where(CLOCKS.c.boot_id == sa.bindparam("b_boot"))
_BY_BOOT_CLOCK = RUNS.c.anchor_wall - RUNS.c.anchor_mono + sa.bindparam("b_mono", type_=sa.Double)


class Scheduled:
    """The scheduled runs of an engine, without those that are paused everywhere.

    The statements are built once, because building one costs more than running it.

    Args:
        engine: name of the engine.
        state: the engine's name of the scheduled state.
    """

    def __init__(self, engine: str, state: str) -> None:
        mine = sa.and_(
            RUNS.c.engine == sa.literal_column(f"'{engine}'"),
            RUNS.c.state == state,
            RUNS.c.ended.is_(None),
            pauses.is_nowhere(RUNS.c.id),
        )
        after = RUNS.c.due > sa.bindparam("b_looked")
        self._next = sa.select(sa.func.min(RUNS.c.due)).where(mine, after)
        is_due = sa.or_(
            RUNS.c.due <= sa.bindparam("b_latest"),
            (RUNS.c.anchor_boot == sa.bindparam("b_boot")) & (RUNS.c.due <= _BY_BOOT_CLOCK),
            # The clock was set back since the scheduling; `judge_due` decides about the run.
            RUNS.c.anchor_wall > sa.bindparam("b_wall"),
        )
        self._due = rows.RUN_ROWS.where(mine, is_due).order_by(RUNS.c.due, RUNS.c.id)

    def next_due(self, conn: sa.Connection, after: float) -> float | None:
        """Return the earliest due time later than *after*; None if there is none."""
        found = conn.execute(self._next, {"b_looked": after}).scalar()
        return None if found is None else float(found)

    def due(self, conn: sa.Connection, now: ClockReading, latest: float) -> list[Run]:
        """Return the runs that are due by at least one clock, the earliest first.

        Args:
            conn: a snapshot.
            now: the clocks now.
            latest: the later one of the wall clock and the time it would show if it had not been
                set during this boot.
        """
        clocks = {
            "b_latest": latest,
            "b_wall": now.wall,
            "b_mono": now.mono,
            "b_boot": now.boot,
        }
        return rows.runs(conn, self._due, clocks)


def first(conn: sa.Connection, boot: str) -> ClockReading | None:
    """Return the first reading of both clocks in a boot; None if it was not stored."""
    kept = conn.execute(_FIRST, {"b_boot": boot}).first()
    return ClockReading(kept.wall, kept.mono, kept.boot_id) if kept else None


def keep_first(conn: sa.Connection, now: ClockReading) -> None:
    """Store a reading of both clocks, unless one of the same boot is stored."""
    if first(conn, now.boot) is None:
        row = {"boot_id": now.boot, "wall": now.wall, "mono": now.mono}
        conn.execute(sa.insert(CLOCKS).values(row))

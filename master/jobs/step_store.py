"""Stores steps of running jobs, within limits of their number and size.

Minions choose the size of a step, and the master reads all stored steps of a job to show it.
"""

from __future__ import annotations

from enum import Enum

import sqlalchemy as sa

from catena.core.job import JobProgress
from catena.master.jobs import progress_rows
from catena.master.store.metadata import Ready

#: Maximum number of stored steps of one job on one minion.
STEPS_LIMIT = 20_000
#: Maximum bytes of the packed data of all stored steps of one job on one minion.
STEPS_BYTES = 16 * 1024 * 1024
#: Number of jobs on minions for which the size of the stored steps is remembered.
REMEMBERED = 10_000


class StepOutcome(Enum):
    """The outcome of an attempt to store a step."""

    stored = "stored"
    #: A limit was reached: the step is shown to followers, but not stored.
    live_only = "live_only"
    #: The step was stored before, or its number is invalid.
    dropped = "dropped"


class StepStore:
    """Stores steps of running jobs within the limits. Only the writer's thread uses it."""

    def __init__(self) -> None:
        #: (jid, minion) -> bytes of the stored steps. After a rollback an entry is too large, so
        #: that fewer steps are stored.
        self._sizes: dict[tuple[str, str], int] = {}

    def store(self, conn: sa.Connection, minion: str, progress: JobProgress) -> StepOutcome:
        """Store a step if it is new and the limits allow it."""
        if progress.seq < 1:
            return StepOutcome.dropped
        if progress.seq > STEPS_LIMIT:
            return StepOutcome.live_only
        if progress_rows.is_stored(conn, minion, progress):
            return StepOutcome.dropped
        data = Ready.of(progress.data)
        key = (progress.jid, minion)
        size = self._sizes.pop(key, None)
        if size is None:
            size = progress_rows.size(conn, *key)
        fits = size + len(data.packed) <= STEPS_BYTES
        if fits:
            progress_rows.insert(conn, minion, progress, data)
            size += len(data.packed)
        self._sizes[key] = size
        if len(self._sizes) > REMEMBERED:
            del self._sizes[next(iter(self._sizes))]
        return StepOutcome.stored if fits else StepOutcome.live_only

"""How many steps of a running job are stored: their number and their size are limited.

Minions choose the size of a step, and everybody who shows the job reads all of its steps.
"""

from __future__ import annotations

from enum import Enum

import sqlalchemy as sa

from catena.core.job import JobProgress
from catena.master.jobs import progress_rows
from catena.master.store.metadata import Ready

#: Maximum number of stored steps of one job on one minion.
STEPS_LIMIT = 20_000
#: Maximum bytes of their data, packed.
STEPS_BYTES = 16 * 1024 * 1024
#: Number of jobs on minions for which the size of the stored steps is remembered.
REMEMBERED = 10_000


class Taken(Enum):
    """What became of a step."""

    stored = "stored"
    #: Shown to those who watch the job, but not stored.
    live_only = "live_only"
    #: Stored before, or without a valid number.
    dropped = "dropped"


class StepRoom:
    """Stores steps of running jobs within the limits. Used by the writer's thread alone."""

    def __init__(self) -> None:
        #: (jid, minion) -> bytes of its stored steps. A rollback leaves an entry too large, which
        #: only lets fewer steps be stored.
        self._sizes: dict[tuple[str, str], int] = {}

    def store(self, conn: sa.Connection, minion: str, progress: JobProgress) -> Taken:
        """Store a step if it is new and the limits allow it."""
        if progress.seq < 1:
            return Taken.dropped
        if progress.seq > STEPS_LIMIT:
            return Taken.live_only
        if progress_rows.is_stored(conn, minion, progress):
            return Taken.dropped
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
        return Taken.stored if fits else Taken.live_only

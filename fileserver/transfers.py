"""Reports how much of a large file has come, while its job runs."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Iterable, Iterator

from catena.core.context import FileEntry
from catena.transport.messages import ChunkReply

#: Least time between two reports of a job, and before its first one, seconds.
PAUSE_SECONDS = 2.0
#: Least part of a file between two reports: the master stores each.
SHARE = 0.1
#: Most reports of one job: the master stores a bounded number of steps, and states need theirs.
REPORTS_LIMIT = 500

#: Reports a step of the job: its kind and its data.
Report = Callable[[str, Dict[str, Any]], None]


class Transfers:
    """The reports of one job, for the process that makes this.

    A copy of the process (a parallel state) reports nothing: it cannot number its steps.

    Args:
        report: sends a step; never waits, never raises.
        monotonic: clock, seconds.
    """

    def __init__(self, report: Report, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._report, self._monotonic = report, monotonic
        self._left, self._owner = REPORTS_LIMIT, os.getpid()
        self._next = monotonic() + PAUSE_SECONDS

    def watched(self, entry: FileEntry, pieces: Iterable[ChunkReply]) -> Iterator[ChunkReply]:
        """Yield the pieces of a file as they come, with a step in between once in a while."""
        done, told = 0, 0.0
        for piece in pieces:
            done += len(piece.data)
            if done >= told + entry.size * SHARE and self._is_time():
                told = done
                self._report("transfer", {"path": entry.path, "done": done, "total": entry.size})
            yield piece

    def _is_time(self) -> bool:
        now = self._monotonic()
        if now < self._next or not self._left or os.getpid() != self._owner:
            return False
        self._next, self._left = now + PAUSE_SECONDS, self._left - 1
        return True

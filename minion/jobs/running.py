"""A job that runs, as the daemon sees it."""

from __future__ import annotations

import os
from typing import Optional

from catena.core.frozen import dataclass
from catena.minion.jobs.processes import ProcessRef

_TICKS = float(os.sysconf("SC_CLK_TCK"))


@dataclass
class Running:
    """A job whose process is watched."""

    spec_limit: int
    deadline_seconds: float
    #: When its process was asked for, monotonic: it may be one that had another job before.
    asked: float = 0.0
    process: Optional[ProcessRef] = None
    #: Somebody tells when the process ends.
    watched: bool = False
    #: Why it was killed; "" when it was not.
    killed: str = ""
    #: The listener knows that it is at work.
    told: bool = False

    def age(self, now: float) -> float:
        """Return how long its process has worked on it, seconds; *now* is monotonic."""
        if self.process is None:
            return 0.0
        return max(0.0, now - max(self.asked, self.process.start / _TICKS))

"""Jobs without an order: `startup_states`, and a chain that continues without the master.

This module only decides; the daemon makes orders with jids of its own. The returns are sent like
all others, and the master adopts the jobs.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

from catena.core.chain_calls import RESUME
from catena.core.config.minion import MinionSettings

Call = Tuple[str, Tuple[str, ...]]


def startup_call(settings: MinionSettings) -> Optional[Call]:
    """Return the call that `startup_states` requests, or None."""
    if settings.startup_states == "highstate":
        return ("state.highstate", ())
    if settings.startup_states == "sls":
        return ("state.sls", (",".join(settings.sls_list),))
    if settings.startup_states == "top":
        return ("state.top", (settings.state_top,))
    return None


class OwnJobs:
    """The calls to make, and when.

    Args:
        settings: the minion's.
        waiting: whether a chain waits for its boundary at the agent's start.
        now: monotonic seconds.
    """

    def __init__(self, settings: MinionSettings, waiting: bool, now: float) -> None:
        self._startup = startup_call(settings)
        self._alone = not settings.master or settings.file_client == "local"
        self._resume_at: Optional[float] = None
        if waiting and settings.resume == "local":
            self._resume_at = now + settings.resume_after_seconds

    def due(self, now: float, connected: bool) -> List[Call]:
        """Return the calls to make now, each once.

        `startup_states` waits for the first connection, which provides files and pillar.
        """
        calls: List[Call] = []
        if self._startup is not None and (connected or self._alone):
            calls.append(self._startup)
            self._startup = None
        if self._resume_at is not None and now >= self._resume_at:
            calls.append((RESUME, ()))
            self._resume_at = None
        return calls

    def resumed(self) -> None:
        """Drop the local resume: the master's reactor was faster."""
        self._resume_at = None

    def next_due(self) -> Optional[float]:
        """Return when a call is due by time alone; None: none."""
        return self._resume_at

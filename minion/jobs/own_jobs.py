"""Jobs that nobody sends: `startup_states`, and a chain that goes on without the master.

Pure decisions; the daemon makes orders of them, with a jid of its own. Their returns go the way of
all returns, and the master adopts them.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

from catena.core.chain_calls import RESUME
from catena.core.config.minion import MinionSettings

Call = Tuple[str, Tuple[str, ...]]


def startup_call(settings: MinionSettings) -> Optional[Call]:
    """Return what `startup_states` asks for; None when it asks for nothing."""
    if settings.startup_states == "highstate":
        return ("state.highstate", ())
    if settings.startup_states == "sls":
        return ("state.sls", (",".join(settings.sls_list),))
    if settings.startup_states == "top":
        return ("state.top", (settings.state_top,))
    return None


class OwnJobs:
    """What is to be run, and when.

    Args:
        settings: the minion's.
        waiting: whether a chain waits here for its boundary, as the agent starts.
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

        States at start wait for the first connection: their files and pillar come from there.
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
        """The master's reactor was faster."""
        self._resume_at = None

    def next_due(self) -> Optional[float]:
        """Return when something is due by time alone; None: nothing."""
        return self._resume_at

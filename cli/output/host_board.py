"""Content of a live view of SSH hosts; no terminal, no clock."""

from __future__ import annotations

import re
from typing import Dict, List, Sequence

from catena.cli.output.board import (
    ACTIVE,
    DONE,
    FAILED,
    KEPT_FAILURES,
    WAITING,
    Board,
    BoardLine,
    cell,
    laid_out,
)

#: Progress of a host that runs states: number done, number in total.
_STEPS = re.compile(r"run: ([0-9]{1,9})/([0-9]{1,9})")


class HostBoard:
    """Tracks the visits of one command to its hosts.

    Args:
        title: what runs on the hosts.
        hosts: their labels; each is visited once.
        width: maximum number of concurrent visits.
        now: start of the command, epoch seconds.
    """

    def __init__(self, title: str, hosts: Sequence[str], width: int, now: float) -> None:
        self._title = cell(title)
        queued = f"queued: {width} hosts at a time"
        self._lines = {host: BoardLine(cell(host), WAITING, 0, 1, queued, now) for host in hosts}
        self._begun: Dict[str, float] = {}
        self._failures: List[str] = []

    def say(self, host: str, text: str, now: float) -> None:
        """Record the progress of a host: a phase of its visit, a colon and details.

        Args:
            host: its label.
            text: the progress.
            now: time of the report, epoch seconds.
        """
        old = self._lines[host]
        steps = _STEPS.fullmatch(text)
        done, total = (int(steps[1]), int(steps[2])) if steps else (old.done, old.total)
        began = self._begun.setdefault(host, now)
        self._lines[host] = BoardLine(
            old.minion, ACTIVE, min(done, total), total, cell(text), began
        )

    def end(self, host: str, failure: str) -> None:
        """Record the end of a visit.

        Args:
            host: its label.
            failure: what failed and why; "" if nothing did.
        """
        old = self._lines[host]
        kind, why = (FAILED, cell(failure)) if failure else (DONE, "")
        self._lines[host] = BoardLine(old.minion, kind, old.total, old.total, why, 0.0)
        if failure:
            self._failures = [*self._failures, f"{old.minion}: {why}"][-KEPT_FAILURES:]

    def board(self, room: int, failures: int) -> Board:
        """Return the frame for the given numbers of hosts and failures."""
        shown = self._failures[-failures:] if failures else []
        return laid_out(self._title, list(self._lines.values()), room, shown)

"""What a live view shows of hosts that are reached over SSH; no terminal, no clock."""

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
    Line,
    cell,
    laid_out,
)

#: Progress line of a host that runs states: number done, number of all.
_STEPS = re.compile(r"run: ([0-9]{1,9})/([0-9]{1,9})")


class HostBoard:
    """Follows the visits of one command to its hosts.

    Args:
        title: what runs on the hosts.
        hosts: their labels; each is visited once.
        width: visits at a time.
        now: when the command began, epoch seconds.
    """

    def __init__(self, title: str, hosts: Sequence[str], width: int, now: float) -> None:
        self._title = cell(title)
        queued = f"queued: {width} hosts at a time"
        self._lines = {host: Line(cell(host), WAITING, 0, 1, queued, now) for host in hosts}
        self._begun: Dict[str, float] = {}
        self._failures: List[str] = []

    def say(self, host: str, text: str, now: float) -> None:
        """Take what a host is doing: a phase of its visit, a colon and more.

        Args:
            host: its label.
            text: what it does.
            now: when it said so, epoch seconds.
        """
        old = self._lines[host]
        steps = _STEPS.fullmatch(text)
        done, total = (int(steps[1]), int(steps[2])) if steps else (old.done, old.total)
        began = self._begun.setdefault(host, now)
        self._lines[host] = Line(old.minion, ACTIVE, min(done, total), total, cell(text), began)

    def end(self, host: str, failure: str) -> None:
        """Take the end of a visit.

        Args:
            host: its label.
            failure: what failed and why; "": nothing did.
        """
        old = self._lines[host]
        kind, why = (FAILED, cell(failure)) if failure else (DONE, "")
        self._lines[host] = Line(old.minion, kind, old.total, old.total, why, 0.0)
        if failure:
            self._failures = [*self._failures, f"{old.minion}: {why}"][-KEPT_FAILURES:]

    def board(self, room: int, failures: int) -> Board:
        """Return the frame that has space for the given numbers of hosts and failures."""
        shown = self._failures[-failures:] if failures else []
        return laid_out(self._title, list(self._lines.values()), room, shown)

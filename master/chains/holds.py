"""Which jobs of chains must not be sent now, and why.

Two rules hold a job back:

- Its run is paused on the minion, until a person continues it (`pauses`).
- It starts a run on a minion that can't remove an ended run. The start would fail there, so the
  job waits for the clean-up, for `chain_clean_wait_minutes` at most (`fence_rules.obstacle`).

Both rules apply whoever ordered the job (a due time, the reaction to a minion's start, a host over
SSH that has become known, a person), and across restarts of the master. The job is stored, and its
delivery is `paused`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from catena.core.chain_calls import CLEAN, RESUME, START, by_hand
from catena.core.job import JobSpec
from catena.master.chains import fence_rows, fence_rules, pause_rows
from catena.master.chains.dependencies import ChainParts, ChainRules
from catena.master.chains.fence_rules import Fence
from catena.master.executions import pauses
from catena.master.executions.model import Suspension

_ARGUMENTS = ("actionchain_id", "epoch")


@dataclass(frozen=True)
class CleanWait:
    """The start of a run that waits until its minion has removed an ended run."""

    fence: Fence
    #: When it is sent nevertheless, by the clock of orders, seconds since the epoch.
    until: float

    @property
    def text(self) -> str:
        """Return for people what the start waits for."""
        return f"waits for the clean-up of {ended_run(self.fence)}, which fails: {self.why}"

    @property
    def why(self) -> str:
        """Return why the clean-up fails, in one line."""
        return first_line(self.fence.why)

    @property
    def command(self) -> str:
        """Return the command that a person runs once the obstacle is gone."""
        return by_hand(CLEAN, self.fence.minion)


def ended_run(fence: Fence) -> str:
    """Return how a message names the run and the minion of a fence."""
    return f"chain {fence.label!r} ({fence.run.chain_id}) on {fence.minion}"


def first_line(why: str) -> str:
    """Return an error of a minion as one line."""
    return (why.removeprefix("ERROR: ").splitlines() or [""])[0]


class ChainHolds:
    """Holds back jobs of chains (`jobs.model.Holds`).

    Args:
        rules: the settings of chains.
        order_time: returns the time by which orders grow old, seconds since the epoch.
    """

    def __init__(self, rules: ChainRules, order_time: Callable[[], float]) -> None:
        self._rules = rules
        self._order_time = order_time

    @classmethod
    def of(cls, parts: ChainParts) -> ChainHolds:
        """Return the holds of a master's chains."""
        return cls(parts.rules, parts.jobs.order_time)

    def paused(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> Mapping[str, str]:
        """Return those of *minions* that must not get a job of a chain now, with the reasons."""
        found: dict[str, str] = {}
        if spec.fun not in (START, RESUME):
            return found
        reasons = pause_rows.reasons(conn)
        if reasons.refused:
            waits = self._clean_waits_of(conn, spec, minions)
            found |= {minion: wait.text for minion, wait in waits.items()}
        if reasons.paused:
            paused = pauses_of(conn, spec, minions)
            found |= {minion: pause_text(pause) for minion, pause in paused.items()}
        return found

    def _clean_waits_of(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> dict[str, CleanWait]:
        number = _chain_of(spec)
        if spec.fun != START or not number or pause_rows.unended(conn, number) is None:
            # Only starts of an open run wait. A start by hand gets the minion's error at once.
            return {}
        return self.clean_waits(conn, spec.not_after, minions)

    def clean_waits(
        self, conn: sa.Connection, not_after: float, minions: Collection[str]
    ) -> dict[str, CleanWait]:
        """Return for which clean-up a job that starts a run waits on some of *minions*.

        Args:
            conn: the running transaction.
            not_after: of the job; the time of its order is calculated from it.
            minions: the minions that are to get the job.
        """
        refused = fence_rows.refused(conn, minions).items()
        waits = {minion: self.clean_wait(fences, not_after) for minion, fences in refused}
        return {minion: wait for minion, wait in waits.items() if wait is not None}

    def clean_wait(self, refused: Iterable[Fence], not_after: float) -> CleanWait | None:
        """Return for which clean-up a job that starts a run waits on one minion, or None.

        Args:
            refused: the runs that the minion has refused to remove.
            not_after: of the job; the time of its order is calculated from it.
        """
        limit = self._rules.clean_wait_seconds
        ordered = not_after - self._rules.due.late_seconds
        waited = max(0.0, self._order_time() - ordered)
        fence = fence_rules.obstacle(refused, waited, limit)
        return CleanWait(fence, self._order_time() + limit - waited) if fence else None


def pauses_of(
    conn: sa.Connection, spec: JobSpec, minions: Collection[str]
) -> Mapping[str, Suspension]:
    """Return the pauses on *minions* of the run that a job starts or resumes."""
    number = _chain_of(spec)
    if number:
        of_run = pauses.of_run(conn, pause_rows.unended(conn, number))
        found = {minion: pauses.on(of_run, minion) for minion in minions}
    else:
        # A resume without arguments, as before runs had names, is about the run that has begun.
        found = {minion: _pause_of_head(conn, minion) for minion in minions}
    return {name: pause for name, pause in found.items() if pause is not None}


def _pause_of_head(conn: sa.Connection, minion: str) -> Suspension | None:
    run = pause_rows.head(conn, minion)
    return None if run is None else pauses.on(pauses.of_run(conn, run.run), minion)


def _chain_of(spec: JobSpec) -> int:
    """Return the number of the chain that a job names; 0 if there is none or it is invalid."""
    given: dict[str, Any] = {**dict(zip(_ARGUMENTS, spec.args, strict=False)), **spec.kwargs}
    try:
        number = int(given.get("actionchain_id", 0))
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 < number < 2**63 else 0


def pause_text(pause: Suspension) -> str:
    """Return a pause as text."""
    at = datetime.fromtimestamp(pause.at).astimezone()
    return f"paused by {pause.who} since {at:%Y-%m-%d %H:%M:%S}"

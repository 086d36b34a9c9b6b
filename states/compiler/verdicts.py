"""Decide from the rows of its requisites whether a state runs.

The decisions are Salt's, including odd ones. A required state that did not run because of its own
requisites neither satisfies a `*_any` nor counts among several targets of onfail. If a watched
state and an onchanges target changed, onfail has no effect.
"""

from __future__ import annotations

from enum import Enum
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from catena.core.frozen import dataclass
from catena.states.compiler.model import Row
from catena.states.compiler.requisites import Links, Plan, RequisiteGroup

_ALL_NEEDED = ("require", "watch")
_ANY_NEEDED = ("require_any", "watch_any")
_WATCHES = ("watch", "watch_any")
_ONCHANGES = ("onchanges", "onchanges_any")
_ONFAIL = ("onfail", "onfail_any")


class Decision(str, Enum):
    """Whether a state runs, and if not, why."""

    run = "run"
    failed = "failed"  #: a required state failed
    no_changes = "no_changes"  #: onchanges: no target changed
    no_failure = "no_failure"  #: onfail: no target failed
    no_prereq = "no_prereq"  #: prereq: no target would change


@dataclass(frozen=True)
class Verdict:
    """A decision and its reasons, as positions of states."""

    decision: Decision
    #: Required states that failed (Decision.failed).
    failed: Tuple[int, ...] = ()
    #: Watched states that changed (Decision.run).
    changed: Tuple[int, ...] = ()


_RUN = Verdict(Decision.run)


@dataclass(frozen=True)
class _Outcome:
    """Summary of the results of some groups of states."""

    failed: Tuple[int, ...]
    #: States that changed and did not fail.
    changed: Tuple[int, ...]
    #: Some state ran and did not fail.
    passed: bool
    #: Some state succeeded.
    fine: bool
    #: Some state ran and failed, or would change in test mode.
    troubled: bool
    #: Some state failed or changed nothing.
    still: bool


_NOTHING = _Outcome((), (), False, False, False, False)


class Judge:
    """Decides from rows; the summary of each group is computed once.

    Args:
        plan: the run.
        rows: rows by position; the states that a state needs have theirs before it is judged.
        trials: rows of the trials of prereq's targets, by position.
    """

    def __init__(
        self, plan: Plan, rows: Sequence[Optional[Row]], trials: Mapping[int, Row]
    ) -> None:
        self._plan = plan
        self._rows = rows
        self._trials = trials
        self._outcomes: Dict[int, _Outcome] = {}

    def verdict(self, position: int, trial: bool = False) -> Verdict:
        """Return the decision about a state.

        Args:
            position: of the state; the targets of its prereq were tried before.
            trial: the state is only tried, so states with a prereq on it don't count.
        """
        links = self._plan.links[position]
        owners = () if trial else tuple(links.prereq_owners)
        if not links.needs and not owners:
            return _RUN
        kinds = {
            kind: self._outcome(groups) for kind, groups in links.needs.items() if kind != "prereq"
        }
        tried = [self._trials[member] for member in _targets(links)]
        failed = [owner for owner in owners if self._row(owner)["result"] is False]
        if failed or self._fails(kinds) or any(one["result"] is False for one in tried):
            return Verdict(Decision.failed, tuple(dict.fromkeys((*failed, *self._failed(links)))))
        would = any(one["result"] is None for one in tried)
        if tried and not would:
            return Verdict(Decision.no_prereq)
        if any(one["result"] is not None for one in tried):
            return _RUN
        return _by_changes(kinds)

    def _fails(self, kinds: Mapping[str, _Outcome]) -> bool:
        if any(kinds[kind].failed for kind in _ALL_NEEDED if kind in kinds):
            return True
        return any(
            kinds[kind].failed and not kinds[kind].passed
            for kind in _ANY_NEEDED
            if kind in kinds and not (kind == "watch_any" and kinds[kind].changed)
        )

    def _failed(self, links: Links) -> Iterator[int]:
        """Yield the failed targets of all requisites of a state (behaviour 11)."""
        for kind, groups in links.needs.items():
            if kind != "prereq":
                yield from self._outcome(groups).failed
        for member in _targets(links):
            if self._trials[member]["result"] is False:
                yield member

    def _row(self, position: int) -> Row:
        row = self._rows[position]
        # A state that a cancelled or stopped run never reached counts as failed.
        return row if row is not None else {"result": False, "changes": {}}

    def _outcome(self, groups: Sequence[RequisiteGroup]) -> _Outcome:
        if len(groups) == 1:
            return self._of_group(groups[0])
        every = [self._of_group(group) for group in groups]
        return _Outcome(
            tuple(position for one in every for position in one.failed),
            tuple(position for one in every for position in one.changed),
            any(one.passed for one in every),
            any(one.fine for one in every),
            any(one.troubled for one in every),
            any(one.still for one in every),
        )

    def _of_group(self, group: RequisiteGroup) -> _Outcome:
        known = self._outcomes.get(group.number)
        if known is None:
            failed: List[int] = []
            changed: List[int] = []
            passed = fine = troubled = still = False
            for position in group.members:
                row = self._row(position)
                result = row["result"]
                ran = row.get("__state_ran__") is not False or self._was_tried(position, row)
                if result is False:
                    failed.append(position)
                elif row["changes"]:
                    changed.append(position)
                passed = passed or (ran and result is not False)
                fine = fine or result is True
                troubled = troubled or (ran and result is not True)
                still = still or result is False or not row["changes"]
            known = _Outcome(tuple(failed), tuple(changed), passed, fine, troubled, still)
            self._outcomes[group.number] = known
        return known

    def _was_tried(self, position: int, row: Row) -> bool:
        """Return whether *row* is the trial of a target whose prereq failed."""
        return position in self._trials and self._trials[position] is not row


def _targets(links: Links) -> Iterator[int]:
    """Yield the targets of a state's prereq."""
    for group in links.needs.get("prereq", ()):
        yield from group.members


def _by_changes(kinds: Mapping[str, _Outcome]) -> Verdict:
    """Return the verdict if nothing failed and prereq does not decide."""
    sources = [kinds[kind] for kind in _ONCHANGES if kind in kinds]
    moved = any(one.changed for one in sources)
    fine = kinds.get("onfail_all", _NOTHING).fine or any(
        kinds[kind].fine and not kinds[kind].troubled for kind in _ONFAIL if kind in kinds
    )
    if fine and not moved:
        return Verdict(Decision.no_failure)
    if any(one.still for one in sources) and not moved:
        return Verdict(Decision.no_changes)
    changed = [position for kind in _WATCHES for position in kinds.get(kind, _NOTHING).changed]
    if changed:
        return Verdict(Decision.run, changed=tuple(dict.fromkeys(changed)))
    return Verdict(Decision.no_failure) if fine else _RUN

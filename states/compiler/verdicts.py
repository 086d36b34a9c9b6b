"""Whether a state runs, as its requisites' rows decide."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from catena.states.compiler.model import Row
from catena.states.compiler.requisites import Group, Links, Plan

_ALL_NEEDED = ("require", "watch")
_ANY_NEEDED = ("require_any", "watch_any")
_WATCHES = ("watch", "watch_any")
_ONCHANGES = ("onchanges", "onchanges_any")


class Decision(str, Enum):
    """What becomes of a state."""

    run = "run"
    failed = "failed"  #: something that it needs failed
    no_changes = "no_changes"  #: onchanges: nothing changed
    no_failure = "no_failure"  #: onfail: nothing failed


@dataclass(frozen=True)
class Verdict:
    """A decision and its reasons, as positions of states."""

    decision: Decision
    #: What failed (Decision.failed).
    failed: Tuple[int, ...] = ()
    #: Watched states that changed (Decision.run).
    changed: Tuple[int, ...] = ()


_RUN = Verdict(Decision.run)


@dataclass(frozen=True)
class _Outcome:
    """What came of the states of one group."""

    failed: Tuple[int, ...]
    #: Changed, and did not fail.
    changed: Tuple[int, ...]
    passed: bool
    #: Some are not simply True: they failed, or (test mode) would change.
    troubled: bool


class Judge:
    """Decides from rows; each group of states is looked at once.

    Args:
        plan: the run.
        rows: rows by position; those that a state needs are there before it is judged.
    """

    def __init__(self, plan: Plan, rows: Sequence[Optional[Row]]) -> None:
        self._plan = plan
        self._rows = rows
        self._outcomes: Dict[int, _Outcome] = {}

    def verdict(self, position: int) -> Verdict:
        """Return what becomes of a state, leaving prereq aside."""
        links = self._plan.links[position]
        if not links.needs:
            return _RUN
        failed = self._failed(links)
        if failed:
            return Verdict(Decision.failed, tuple(dict.fromkeys(failed)))
        if self._nothing_failed(links):
            return Verdict(Decision.no_failure)
        sources = [one for kind in _ONCHANGES for one in self._outcomes_of(links, kind)]
        if sources and not any(one.changed for one in sources):
            return Verdict(Decision.no_changes)
        changed = [
            position
            for kind in _WATCHES
            for one in self._outcomes_of(links, kind)
            for position in one.changed
        ]
        return Verdict(Decision.run, changed=tuple(dict.fromkeys(changed))) if changed else _RUN

    def _failed(self, links: Links) -> List[int]:
        failed = [
            position
            for kind in _ALL_NEEDED
            for one in self._outcomes_of(links, kind)
            for position in one.failed
        ]
        for kind in _ANY_NEEDED:
            sources = self._outcomes_of(links, kind)
            if sources and not any(one.passed for one in sources):
                failed += [position for one in sources for position in one.failed]
        if failed:
            # As in Salt, whose list names what onfail waited for, too (behaviour 11).
            failed += [
                position
                for kind in ("onfail", "onfail_any", "onfail_all")
                for one in self._outcomes_of(links, kind)
                for position in one.failed
            ]
        return failed

    def _nothing_failed(self, links: Links) -> bool:
        either = [
            one for kind in ("onfail", "onfail_any") for one in self._outcomes_of(links, kind)
        ]
        every = self._outcomes_of(links, "onfail_all")
        if either and not any(one.troubled for one in either):
            return True
        return bool(every) and any(self._some_fine(group) for group in links.needs["onfail_all"])

    def _some_fine(self, group: Group) -> bool:
        return any(self._row(position)["result"] is True for position in group.members)

    def _outcomes_of(self, links: Links, kind: str) -> List[_Outcome]:
        groups: Iterable[Group] = links.needs.get(kind, ())
        return [self._outcome(group) for group in groups]

    def _row(self, position: int) -> Row:
        row = self._rows[position]
        # A state that a cancelled or stopped run never reached counts as failed.
        return row if row is not None else {"result": False, "changes": {}}

    def _outcome(self, group: Group) -> _Outcome:
        known = self._outcomes.get(group.number)
        if known is None:
            failed, changed, troubled = [], [], False
            for position in group.members:
                row = self._row(position)
                result = row["result"]
                if result is False:
                    failed.append(position)
                elif row["changes"]:
                    changed.append(position)
                troubled = troubled or result is not True
            passed = len(failed) < len(group.members)
            known = _Outcome(tuple(failed), tuple(changed), passed, troubled)
            self._outcomes[group.number] = known
        return known

"""Decides what happens next to a chain, as pure functions of facts: no I/O, no clock.

The scheduler and the observer of results gather facts, call these functions, and store their
decisions. The simulation calls the same functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catena.core.job import ActionKind, Boundary, ChainManifest
from catena.master.chains.lifecycle import ChainEvent
from catena.master.executions.lifecycle import EXECUTION, ExecutionEvent, ExecutionState
from catena.master.process.clocks import ClockReading, passed

PREREQUISITE_FAILED = "Prerequisite failed"
NO_RETURN = "No job return event was received."
EMPTY_RESULT = "Got empty result."


@dataclass(frozen=True)
class ExecutionFact:
    """One execution as the decisions see it."""

    action_id: int
    sort_order: int
    state: ExecutionState
    chunk: int
    #: The boundary that must be proven after the action succeeded.
    waits_for: Boundary = Boundary.none
    #: Whether the action succeeded and only the proof of its boundary is missing.
    picked_up: bool = False
    #: Boot id of the minion under which it succeeded; "" if unknown.
    boot_id: str = ""

    @property
    def is_open(self) -> bool:
        """Return whether the execution can still change."""
        return not EXECUTION.is_final(self.state)


@dataclass(frozen=True)
class Outcome:
    """What a minion reported about one action."""

    chunk: int
    #: True: done; False: failed; None: would change (test mode), which counts as done.
    result: bool | None
    comment: str = ""
    #: None: not reported yet; only the return contains them, not the progress messages.
    changes: Mapping[str, Any] | None = None
    #: Wall clock of the minion; 0.0 if unknown.
    started: float = 0.0
    duration_seconds: float = 0.0
    #: Special reason of a failure, such as "interrupted"; "" for an ordinary failure.
    reason: str = ""


@dataclass(frozen=True)
class Change:
    """A decided transition of one execution."""

    action_id: int
    event: ExecutionEvent
    reason: str = ""
    outcome: Outcome | None = None
    #: Whether the action succeeded and now waits for the proof of its boundary.
    picked_up: bool = False


@dataclass(frozen=True)
class Report:
    """What one return reports about a chain on one minion."""

    #: By action id.
    outcomes: Mapping[int, Outcome]
    #: Numbers of the chunks that the return is about.
    chunks: frozenset[int] = frozenset()
    #: Comments of failed verify states, by the number of the chunk that begins with the state.
    failed_verifies: Mapping[int, str] = field(default_factory=dict)
    #: Boot under which the job ended; "" if unknown.
    boot_id: str = ""
    #: Boot that the minion is known to be in now; "" if unknown.
    current_boot: str = ""
    #: Why the next chunk can't be run, by the number of the chunk that should have scheduled it.
    unscheduled: Mapping[int, str] = field(default_factory=dict)


def waits_of(manifest: ChainManifest) -> dict[int, tuple[int, Boundary]]:
    """Return action id -> the action's chunk number and the boundary that must be proven."""
    found = {}
    for chunk in manifest.chunks:
        last = chunk.actions[-1].action_id if chunk.actions else None
        for action in chunk.actions:
            boundary = Boundary.none
            if action.kind is ActionKind.reboot:
                boundary = Boundary.reboot
            elif action.action_id == last and chunk.boundary is Boundary.agent_upgrade:
                boundary = Boundary.agent_upgrade
            found[action.action_id] = (chunk.number, boundary)
    return found


def judge_report(facts: Sequence[ExecutionFact], report: Report) -> list[Change]:
    """Return the changes that a return causes.

    The order of entries in a return is not reliable, so all entries are judged first. Then every
    unfinished action behind the first failed one, by sort order, fails as a consequence.
    """
    changes: dict[int, Change] = {}
    for fact in facts:
        if fact.is_open:
            change = _of_outcome(fact, report) or _of_proof(fact, report)
            if change is not None:
                changes[fact.action_id] = change
    _lose_silent(facts, report, changes)
    _fail_followers(facts, changes)
    return [changes[fact.action_id] for fact in facts if fact.action_id in changes]


def _of_outcome(fact: ExecutionFact, report: Report) -> Change | None:
    outcome = report.outcomes.get(fact.action_id)
    if outcome is None:
        return None
    if outcome.result is False:
        return Change(fact.action_id, ExecutionEvent.fail, outcome.reason, outcome)
    if fact.waits_for is Boundary.none:
        return Change(fact.action_id, ExecutionEvent.succeed, "", outcome)
    proof = _of_proof(fact, report)
    if proof is not None:
        return proof if fact.picked_up else replace(proof, outcome=proof.outcome or outcome)
    if fact.chunk in report.unscheduled:
        # The action was done, but the minion has given the chain up, so no proof will come.
        why = f"the next chunk could not be scheduled: {report.unscheduled[fact.chunk]}"
        return Change(fact.action_id, ExecutionEvent.fail, "", replace(outcome, comment=why))
    if fact.picked_up:
        return None
    if fact.waits_for is Boundary.reboot and _booted(report):
        return Change(fact.action_id, ExecutionEvent.succeed, "", outcome)
    return Change(
        fact.action_id, ExecutionEvent.begin, fact.waits_for.value, outcome, picked_up=True
    )


def _booted(report: Report) -> bool:
    """Return whether the minion has rebooted since the boot in which the return was written."""
    return bool(report.boot_id and report.current_boot) and report.boot_id != report.current_boot


def _of_proof(fact: ExecutionFact, report: Report) -> Change | None:
    """Return the change if results of a later chunk prove the action's boundary, else None.

    A failed verify state of the next chunk disproves the upgrade of the agent.
    """
    later = [chunk for chunk in report.chunks if chunk > fact.chunk]
    if not later or fact.waits_for is Boundary.none:
        return None
    comment = report.failed_verifies.get(fact.chunk + 1)
    if comment is not None and fact.waits_for is Boundary.agent_upgrade:
        outcome = Outcome(fact.chunk, False, comment)
        return Change(fact.action_id, ExecutionEvent.fail, "", outcome)
    return Change(fact.action_id, ExecutionEvent.succeed)


def _lose_silent(
    facts: Sequence[ExecutionFact], report: Report, changes: dict[int, Change]
) -> None:
    """Mark open actions as lost whose chunk has returned without mentioning them."""
    for fact in facts:
        silent = fact.action_id not in changes and fact.is_open and not fact.picked_up
        if silent and fact.chunk in report.chunks:
            changes[fact.action_id] = Change(fact.action_id, ExecutionEvent.lose, NO_RETURN)


def _fail_followers(facts: Sequence[ExecutionFact], changes: dict[int, Change]) -> None:
    bad = (ExecutionEvent.fail, ExecutionEvent.lose)
    failed = [
        fact.sort_order
        for fact in facts
        if fact.state in (ExecutionState.FAILED, ExecutionState.LOST)
        or (fact.action_id in changes and changes[fact.action_id].event in bad)
    ]
    if not failed:
        return
    first = min(failed)
    for fact in facts:
        if fact.sort_order <= first or not fact.is_open:
            continue
        own = changes.get(fact.action_id)
        if own is None or own.event in bad:
            changes[fact.action_id] = Change(
                fact.action_id, ExecutionEvent.fail, PREREQUISITE_FAILED
            )


def fail_open(facts: Sequence[ExecutionFact], text: str) -> list[Change]:
    """Return the changes when a minion's job returned only an error text."""
    return [
        Change(fact.action_id, _failure_of(fact), text, Outcome(fact.chunk, False, text))
        for fact in facts
        if fact.is_open
    ]


def fail_from(facts: Sequence[ExecutionFact], action_id: int, text: str) -> list[Change]:
    """Return the changes when the master fails one action (a deadline has passed)."""
    changes: dict[int, Change] = {}
    for fact in facts:
        if fact.action_id == action_id and fact.is_open:
            outcome = Outcome(fact.chunk, False, text)
            changes[action_id] = Change(action_id, _failure_of(fact), text, outcome)
    _fail_followers(facts, changes)
    return [changes[fact.action_id] for fact in facts if fact.action_id in changes]


def _failure_of(fact: ExecutionFact) -> ExecutionEvent:
    if fact.state is ExecutionState.PENDING_SCHEDULE:
        return ExecutionEvent.reject
    return ExecutionEvent.fail


def lose_open(facts: Sequence[ExecutionFact], text: str = NO_RETURN) -> list[Change]:
    """Return the changes when a minion's job ended without a return."""
    return [Change(fact.action_id, ExecutionEvent.lose, text) for fact in facts if fact.is_open]


def cancel_open(facts: Sequence[ExecutionFact], text: str) -> list[Change]:
    """Return the changes when a person stopped a chain, or its job on one minion."""
    return [Change(fact.action_id, ExecutionEvent.cancel, text) for fact in facts if fact.is_open]


def prove_boot(facts: Sequence[ExecutionFact], boot_id: str) -> list[Change]:
    """Return the changes of the reboots that a start of the minion in boot *boot_id* proves."""
    return [
        Change(fact.action_id, ExecutionEvent.succeed)
        for fact in facts
        if fact.is_open
        and fact.picked_up
        and fact.waits_for is Boundary.reboot
        and boot_id
        and fact.boot_id
        and fact.boot_id != boot_id
    ]


def prove_by_progress(facts: Sequence[ExecutionFact], change: Change) -> list[Change]:
    """Return the changes of earlier actions that an action's progress proves.

    An action begins only when all actions before it have succeeded: each requires the one before
    it, and the first one of a chunk requires the proof of the boundary. The messages about their
    ends may have been lost while the master was down; their return follows. A failed action proves
    nothing, because it may never have begun.
    """
    if change.event not in (ExecutionEvent.begin, ExecutionEvent.succeed):
        return []
    order = next((f.sort_order for f in facts if f.action_id == change.action_id), 0)
    return [
        Change(fact.action_id, ExecutionEvent.succeed)
        for fact in facts
        if fact.is_open and fact.sort_order < order
    ]


def boundary_overdue(picked_up: ClockReading, now: ClockReading, allowed_seconds: float) -> bool:
    """Return whether a proof has been missing for too long, by the monotonic clock.

    Setting the wall clock neither fails a chain nor prolongs its wait. After a boot of the
    master's host only the time since that boot counts, which is at most the real time. A reading
    of another host is compared by the wall clock (`clocks.passed`).
    """
    return passed(picked_up, now) > allowed_seconds


def settle(states: Iterable[ExecutionState]) -> ChainEvent | None:
    """Return how a chain ends, by the states of its newest executions; None while any is open."""
    found = set(states)
    if any(not EXECUTION.is_final(state) for state in found):
        return None
    return ChainEvent.finish if found <= {ExecutionState.DONE} else ChainEvent.fail


def to_retry(facts: Sequence[ExecutionFact]) -> list[int]:
    """Return the ids of one minion's actions that a retry runs: the first unfinished and later."""
    ordered = sorted(facts, key=lambda fact: fact.sort_order)
    for index, fact in enumerate(ordered):
        if fact.state is not ExecutionState.DONE:
            return [later.action_id for later in ordered[index:]]
    return []

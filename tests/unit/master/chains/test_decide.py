"""Decisions about chains, as functions of facts."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from catena.core.job import Boundary
from catena.master.chains.decide import (
    PREREQUISITE_FAILED,
    Change,
    ExecutionFact,
    Outcome,
    Report,
    boundary_overdue,
    judge_report,
    prove_boot,
    prove_by_progress,
    settle,
    to_retry,
)
from catena.master.chains.lifecycle import ChainEvent
from catena.master.executions.lifecycle import EXECUTION, ExecutionEvent, ExecutionState, status
from catena.master.process.clocks import ClockReading

NEW, RUNNING, DONE, FAILED = (
    ExecutionState.NEW,
    ExecutionState.RUNNING,
    ExecutionState.DONE,
    ExecutionState.FAILED,
)


def fact(
    number: int, state: ExecutionState = NEW, chunk: int = 1, **more: object
) -> ExecutionFact:
    return replace(ExecutionFact(100 - number, number, state, chunk), **more)  # type: ignore[arg-type]


def changes_by_action(changes: list[Change]) -> dict[int, tuple[str, str]]:
    return {100 - c.action_id: (c.event.value, c.reason) for c in changes}


def test_first_failure_by_sort_order_decides_in_any_order_of_results() -> None:
    facts = [fact(0), fact(1), fact(2), fact(3, chunk=2)]
    outcomes = {100: Outcome(1, True), 99: Outcome(1, False, "x"), 98: Outcome(1, False, "y")}
    for order in permutations(outcomes):
        report = Report({key: outcomes[key] for key in order}, frozenset({1}))
        assert changes_by_action(judge_report(facts, report)) == {
            0: ("succeed", ""),
            1: ("fail", ""),
            2: ("fail", PREREQUISITE_FAILED),
            3: ("fail", PREREQUISITE_FAILED),
        }


def test_finished_action_stays_done_after_a_contradicting_repeated_return() -> None:
    facts = [fact(0, DONE), fact(1, FAILED)]
    report = Report({100: Outcome(1, False), 99: Outcome(1, True)}, frozenset({1}))
    assert judge_report(facts, report) == []


def test_reboot_action_stays_picked_up_until_the_boot_is_proven() -> None:
    facts = [fact(0, waits_for=Boundary.reboot), fact(1, chunk=2)]
    (change,) = judge_report(facts, Report({100: Outcome(1, True)}, frozenset({1})))
    assert (change.event, change.picked_up) == (ExecutionEvent.begin, True)
    picked = [replace(facts[0], state=RUNNING, picked_up=True, boot_id="a"), facts[1]]
    assert prove_boot(picked, "a") == []
    assert changes_by_action(prove_boot(picked, "b")) == {0: ("succeed", "")}
    report = Report({99: Outcome(2, True)}, frozenset({2}))
    assert changes_by_action(judge_report(picked, report)) == {
        0: ("succeed", ""),
        1: ("succeed", ""),
    }


@pytest.mark.parametrize("picked_up", [False, True])
def test_no_proof_is_awaited_when_the_next_chunk_was_not_scheduled(picked_up: bool) -> None:
    state = RUNNING if picked_up else NEW
    upgrade = fact(0, state, waits_for=Boundary.agent_upgrade, picked_up=picked_up)
    outcomes = {upgrade.action_id: Outcome(1, True)}
    report = Report(outcomes, frozenset({1}), unscheduled={1: "No space left on device"})
    failed, follower = judge_report([upgrade, fact(1, chunk=2)], report)
    assert (failed.event, follower.reason) == (ExecutionEvent.fail, PREREQUISITE_FAILED)
    assert failed.outcome is not None and "No space left" in failed.outcome.comment


def test_successful_action_proves_the_actions_before_it() -> None:
    facts = [
        fact(0, RUNNING, waits_for=Boundary.agent_upgrade, picked_up=True),
        fact(1, RUNNING, 2),
        fact(2, NEW, 2),
        fact(3, NEW, 3),
    ]

    def proven(at: int, event: ExecutionEvent) -> dict[int, tuple[str, str]]:
        return changes_by_action(prove_by_progress(facts, Change(facts[at].action_id, event)))

    success = ("succeed", "")
    assert proven(0, ExecutionEvent.begin) == {}
    assert proven(1, ExecutionEvent.begin) == {0: success}
    # Word of the ends of 1 and 2 met a master that was away.
    assert proven(3, ExecutionEvent.succeed) == {0: success, 1: success, 2: success}
    # It may have failed because one before it did.
    assert proven(3, ExecutionEvent.fail) == {}


def test_return_from_before_the_boot_needs_no_further_proof() -> None:
    facts = [fact(0, waits_for=Boundary.reboot)]
    report = Report({100: Outcome(1, True)}, frozenset({1}), {}, "a", "b")
    assert changes_by_action(judge_report(facts, report)) == {0: ("succeed", "")}


def test_failed_verify_fails_the_upgrade_before_it() -> None:
    facts = [
        fact(0, RUNNING, waits_for=Boundary.agent_upgrade, picked_up=True),
        fact(1, chunk=2),
    ]
    report = Report({99: Outcome(2, False, "requisite")}, frozenset({2}), {2: "old version"})
    changes = judge_report(facts, report)
    assert changes_by_action(changes) == {0: ("fail", ""), 1: ("fail", PREREQUISITE_FAILED)}
    assert changes[0].outcome is not None
    assert changes[0].outcome.comment == "old version"


def test_action_that_its_chunks_return_does_not_name_is_lost() -> None:
    facts = [fact(0), fact(1), fact(2, chunk=2)]
    report = Report({100: Outcome(1, True)}, frozenset({1}))
    assert changes_by_action(judge_report(facts, report)) == {
        0: ("succeed", ""),
        1: ("lose", "No job return event was received."),
        2: ("fail", PREREQUISITE_FAILED),
    }


def test_missing_boot_becomes_overdue_by_the_monotonic_clock() -> None:
    start = ClockReading(0, 0, "boot")
    assert not boundary_overdue(start, ClockReading(9000, 10, "boot"), 60)
    assert boundary_overdue(start, ClockReading(-9000, 61, "boot"), 60)
    assert boundary_overdue(start, ClockReading(61, 61, "boot"), 60)
    late = ClockReading(5000, 5000, "boot", "host")
    assert not boundary_overdue(late, ClockReading(9000, 30, "next boot", "host"), 60)
    assert boundary_overdue(late, ClockReading(9000, 90, "next boot", "host"), 60)


def test_boundary_counts_the_wall_clock_on_another_host() -> None:
    picked_up = ClockReading(5000, 5000, "boot", "host")
    assert not boundary_overdue(picked_up, ClockReading(5030, 9e6, "boot 2", "other"), 60)
    assert not boundary_overdue(picked_up, ClockReading(4000, 9e6, "boot 2", "other"), 60)
    assert boundary_overdue(picked_up, ClockReading(5090, 3, "boot 2", "other"), 60)


def test_chain_ends_when_every_execution_has() -> None:
    assert settle([DONE, NEW]) is None
    assert settle([DONE, DONE]) is ChainEvent.finish
    assert settle([DONE, ExecutionState.LOST]) is ChainEvent.fail


def test_retry_begins_at_the_first_that_is_not_done() -> None:
    assert to_retry([fact(2), fact(0, DONE), fact(1, FAILED)]) == [99, 98]
    assert to_retry([fact(0, DONE)]) == []


def test_every_open_execution_of_a_dispatched_chain_can_fail_be_cancelled_and_be_lost() -> None:
    for state in (NEW, RUNNING):
        for event in (ExecutionEvent.fail, ExecutionEvent.cancel, ExecutionEvent.lose):
            assert EXECUTION.is_final(EXECUTION.replay(state, event))


def test_every_execution_state_has_one_of_the_four_statuses() -> None:
    assert {status(state).value for state in ExecutionState} == {
        "Queued",
        "Picked Up",
        "Completed",
        "Failed",
    }

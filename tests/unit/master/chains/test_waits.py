from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catena.core.job import Boundary
from catena.master.chains.decide import ExecutionFact
from catena.master.chains.lifecycle import ChainState
from catena.master.chains.waits import ChainFact, JobFact, MinionFact, Wait, of_minion
from catena.master.chains.waits import of_undispatched as undispatched
from catena.master.executions.lifecycle import ExecutionState
from catena.master.jobs.delivery import Delivery

JID = "20260301120000000001"


def fact(number: int, state: str, **more: Any) -> ExecutionFact:
    return ExecutionFact(number, number, ExecutionState(state), 1, **more)


def first(minion: MinionFact, state: str = "NEW", **more: Any) -> Wait:
    found = of_minion([fact(0, "DONE"), fact(1, state, **more), fact(2, "NEW")], minion)
    assert found[2] == Wait("after action 1")
    assert 0 not in found
    return found[1]


def start(state: Delivery, **more: Any) -> MinionFact:
    return MinionFact("web1", start=JobFact(JID, state, 900.0), **more)


def test_due_chain_that_can_not_start_says_why_and_until_when_it_is_tried() -> None:
    late = ChainFact(7, ChainState.scheduled, due=500.0, delay="the worker died", late=900.0)
    wait = undispatched(late)
    assert wait.text == "is due but can't start, the master retries: the worker died"
    assert wait.until == 900.0


def test_each_state_before_the_dispatch_says_what_a_person_can_do() -> None:
    assert undispatched(ChainFact(7, ChainState.draft)).text == "a draft: catena chain schedule 7"
    asked = undispatched(ChainFact(7, ChainState.pending_approval)).text
    assert asked == "waits for approval: catena chain approve 7"
    held = undispatched(ChainFact(7, ChainState.waiting, reason="the clock was set back")).text
    assert "the clock was set back" in held
    assert "catena chain release 7, or cancel 7" in held
    timed = undispatched(ChainFact(7, ChainState.scheduled, due=500.0))
    assert timed == Wait("waits for its due time", 500.0)
    assert undispatched(ChainFact(7, ChainState.done)) == Wait()


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (Delivery.queued, f"job {JID} is not sent yet; web1 was never connected"),
        (Delivery.sent, f"job {JID} is sent but not confirmed; web1 was never connected"),
        (Delivery.received, f"job {JID} is in the queue of web1; web1 was never connected"),
    ],
)
def test_job_that_has_not_begun_says_where_it_is_and_until_when(
    state: Delivery, text: str
) -> None:
    assert first(start(state, up=False)) == Wait(text, 900.0)


def test_minion_that_is_away_is_named_with_when_it_was_seen() -> None:
    said = first(start(Delivery.queued, up=False, last_seen=1.0)).text
    assert "web1 is not connected, seen last 19" in said
    away = MinionFact("web1", up=False, last_seen=1.0)
    assert first(away, "RUNNING").text.endswith("only `catena chain cancel` ends the wait earlier")
    assert first(MinionFact("web1"), "RUNNING") == Wait()


def test_chain_behind_another_names_it() -> None:
    behind = start(Delivery.received, ahead="chain 'night' (5)")
    assert first(behind) == Wait("waits behind chain 'night' (5) on web1")


@pytest.mark.parametrize(
    ("proof", "text"),
    [(Boundary.reboot, "waits for the boot"), (Boundary.agent_upgrade, "waits for the new agent")],
)
def test_boundary_says_until_when_it_has_to_be_passed(proof: Boundary, text: str) -> None:
    minion = MinionFact("web1", deadlines={1: 1800.0})
    assert first(minion, "RUNNING", waits_for=proof, picked_up=True) == Wait(text, 1800.0)


def test_run_without_a_job_says_so() -> None:
    done = start(Delivery.done)
    assert "no job resumes it" in first(done).text
    resumed = MinionFact("web1", resume=JobFact(JID, Delivery.queued, 900.0))
    assert first(resumed).text == f"job {JID} is not sent yet"


def test_run_unknown_to_its_minion_is_given_up() -> None:
    disowned = MinionFact("web1", disowned="web1: no chain waits on this minion")
    assert first(disowned).text == "is given up soon: web1: no chain waits on this minion"


def test_start_behind_a_failing_clean_names_it_and_until_when_it_waits() -> None:
    clean = Wait("waits for the clean-up of chain 'old' (3) on web1, which fails: no", 700.0)
    held = start(Delivery.paused, clean=clean)
    assert first(held) == clean
    assert first(replace(held, paused="paused by joe")).text == "paused by joe"
    away = replace(held, up=False)
    assert first(away) == Wait(f"{clean.text}; web1 was never connected", 700.0)


@pytest.mark.parametrize("state", [Delivery.received, Delivery.running])
def test_start_that_its_minion_has_waits_for_no_clean(state: Delivery) -> None:
    clean = Wait("waits for the clean-up", 700.0)
    assert first(start(state, clean=clean)).text != clean.text

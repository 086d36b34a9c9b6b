from __future__ import annotations

from itertools import pairwise

from catena.core.run_ref import RunRef
from catena.master.chains.fence_rules import (
    LONGEST_PAUSE_SECONDS,
    Fence,
    FenceStep,
    pause,
    steps,
)

ONE, TWO = RunRef(1, 1), RunRef(2, 1)


def taken(*fences: Fence, waited: float = 0.0) -> dict[RunRef, str]:
    found = steps(fences, {(fence.minion, fence.run): waited for fence in fences})
    return {fence.run: step.value for fence, step in found}


def test_fence_retry_delays_grow_to_a_limit() -> None:
    pauses = [pause(tries) for tries in range(12)]
    assert pauses[:4] == [0.0, 5.0, 10.0, 20.0]
    assert all(later >= earlier for earlier, later in pairwise(pauses))
    assert pause(10**9) == LONGEST_PAUSE_SECONDS


def test_a_minion_gets_one_fence_job_at_a_time() -> None:
    assert taken(Fence(ONE, "web1"), Fence(TWO, "web1")) == {ONE: "send", TWO: "wait"}
    assert taken(Fence(ONE, "web1", jid="2026"), Fence(TWO, "web1")) == {ONE: "wait", TWO: "wait"}


def test_failed_fence_is_retried_after_its_delay() -> None:
    fence = Fence(ONE, "web1", tries=3)
    assert taken(fence, waited=19.9) == {ONE: "wait"}
    assert taken(fence, waited=20.0) == {ONE: "send"}


def test_failing_fence_delays_the_other_fences_of_its_minion() -> None:
    fences = (Fence(ONE, "web1", tries=3), Fence(TWO, "web1"))
    assert taken(*fences, waited=1.0) == {ONE: "wait", TWO: "wait"}
    assert taken(*fences, waited=20.0) == {TWO: "send", ONE: "wait"}


def test_a_replaced_run_is_dropped_where_the_agent_takes_no_run() -> None:
    assert taken(Fence(ONE, "web1", named=False, replaced=True)) == {ONE: FenceStep.drop}
    assert taken(Fence(ONE, "web1", named=True, replaced=True)) == {ONE: "send"}
    assert taken(Fence(ONE, "web1", named=False)) == {ONE: "send"}

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.core.run_ref import RunRef
from catena.master.chains.fence_rules import (
    LONGEST_PAUSE_SECONDS,
    Fence,
    FenceStep,
    obstacle,
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


def test_minion_gets_one_fence_job_at_a_time() -> None:
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


def test_replaced_run_is_dropped_where_the_agent_takes_no_run() -> None:
    assert taken(Fence(ONE, "web1", named=False, replaced=True)) == {ONE: FenceStep.drop}
    assert taken(Fence(ONE, "web1", named=True, replaced=True)) == {ONE: "send"}
    assert taken(Fence(ONE, "web1", named=False)) == {ONE: "send"}


REFUSED = Fence(ONE, "web1", tries=3, refused=True)


@pytest.mark.parametrize(
    ("fence", "holds"),
    [
        (REFUSED, True),
        # It is tried again right now, and the last answer still was a refusal.
        (Fence(ONE, "web1", jid="2026", refused=True), True),
        (Fence(ONE, "web1"), False),
        (Fence(ONE, "web1", jid="2026"), False),
        # Nobody answered: the minion is away.
        (Fence(ONE, "web1", tries=7), False),
        # It is dropped with the next tick.
        (Fence(ONE, "web1", refused=True, named=False, replaced=True), False),
        (Fence(ONE, "web1", refused=True, named=True, replaced=True), True),
    ],
)
def test_only_a_refused_fence_holds_a_start_back(fence: Fence, holds: bool) -> None:
    assert obstacle([fence], waited=0.0, limit=60.0) == (fence if holds else None)


def test_start_waits_for_the_oldest_of_several_refused_fences() -> None:
    other = Fence(TWO, "web1", refused=True)
    assert obstacle([other, REFUSED], waited=0.0, limit=60.0) == REFUSED
    assert obstacle([], waited=0.0, limit=60.0) is None


_FENCES = st.lists(
    st.builds(
        Fence,
        run=st.builds(RunRef, st.integers(1, 9), st.integers(1, 3)),
        minion=st.just("web1"),
        tries=st.integers(0, 9),
        named=st.booleans(),
        replaced=st.booleans(),
        refused=st.booleans(),
    )
)
_SECONDS = st.floats(0.0, 1e9)


@given(_FENCES, _SECONDS, _SECONDS)
def test_no_start_waits_longer_than_the_limit_or_without_a_refusal(
    fences: list[Fence], waited: float, limit: float
) -> None:
    found: Any = obstacle(fences, waited, limit)
    if waited >= limit or not any(fence.refused for fence in fences):
        assert found is None
    assert found is None or found.refused

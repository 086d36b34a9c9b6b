"""Simulated minions connect as fast as the master can take them."""

from __future__ import annotations

from bench.swarm.pace import FEWEST, Pace


def test_pace_is_halved_after_a_failure_down_to_a_minimum() -> None:
    pace = Pace(100)
    assert pace.room == 100
    pace.failed()
    assert pace.room == 50
    for _ in range(10):
        pace.failed()
    assert pace.room == FEWEST


def test_pace_grows_by_one_for_each_successful_round() -> None:
    pace = Pace(100)
    pace.failed()
    for _ in range(51):
        pace.succeeded()
    assert pace.room == 51
    for _ in range(10_000):
        pace.succeeded()
    assert pace.room == 100

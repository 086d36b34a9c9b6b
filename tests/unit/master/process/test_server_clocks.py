"""Where the steady clock of a database server begins, over steps and restarts."""

from __future__ import annotations

import pytest

from catena.core.clock import ClockReading
from catena.master.process.server_clocks import ServerTime, Zero, zero_of

#: The server started an hour ago.
NOW = ServerTime(10_000.0, 6_400.0, "7/6400", 50.0, 0.0)
KEPT = Zero("7/6400", 6_400.0)


def expected(mono: float, boot: str = "7/6400") -> ClockReading:
    return ClockReading(0.0, mono, boot)


def test_first_master_counts_from_the_start_of_the_server() -> None:
    assert zero_of(None, None, NOW) == KEPT


def test_steady_clock_begins_anew_with_the_server() -> None:
    assert zero_of(Zero("7/100", 90.0), expected(9_910.0, "7/100"), NOW) == KEPT


def test_second_master_takes_the_zero_that_is_stored() -> None:
    stepped = Zero("7/6400", 92_800.0)
    assert zero_of(stepped, None, NOW) == stepped
    assert zero_of(stepped, expected(40.0, "7/100"), NOW) == stepped


@pytest.mark.parametrize("late", [-0.9, 0.0, 0.9])
def test_zero_stays_while_the_clocks_agree(late: float) -> None:
    assert zero_of(KEPT, expected(3_600.0 + late), NOW) == KEPT


@pytest.mark.parametrize("ahead", [-86_400.0, -1.1, 1.1, 86_400.0])
def test_zero_moves_with_a_wall_clock_that_is_set(ahead: float) -> None:
    found = zero_of(KEPT, expected(3_600.0 - ahead), NOW)
    assert found.wall == pytest.approx(KEPT.wall + ahead)


def test_slow_clock_reading_is_not_taken_for_a_clock_change() -> None:
    slow = ServerTime(NOW.wall, NOW.started, NOW.boot, NOW.local, took=5.0)
    assert zero_of(KEPT, expected(3_605.0), slow) == KEPT


def test_clock_change_stored_by_another_master_is_not_stored_twice() -> None:
    moved = Zero("7/6400", KEPT.wall + 86_400.0)
    assert zero_of(moved, expected(3_600.0 - 86_400.0), NOW) == moved

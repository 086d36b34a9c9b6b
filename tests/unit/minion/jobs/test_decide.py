from __future__ import annotations

from typing import Optional

import pytest

from catena.minion.jobs.decide import (
    ATTEMPTS,
    OUTPUT_FLOOR,
    PROCESSES,
    Ended,
    Leftover,
    Next,
    after_end,
    excess,
    goes_on,
    is_too_late,
    recovered,
)


@pytest.mark.parametrize(
    ("left", "chosen"),
    [
        (Leftover(seen=True), Next.forget),
        (Leftover(has_return=True), Next.take_return),
        (Leftover(has_logged_return=True), Next.report_return),
        (Leftover(postponed=True), Next.queue_first),
        (Leftover(), Next.queue),
        (Leftover(begun=True, claimed=True, alive=True), Next.attach),
        (Leftover(begun=True, claimed=True), Next.died),
        (Leftover(begun=True), Next.died),
        (Leftover(begun=True, resumable=True), Next.died),
        (Leftover(begun=True, is_logged_only=True), Next.died),
        (Leftover(begun=True, resumable=True, is_logged_only=True), Next.queue_first),
    ],
)
def test_recovered_job_follows_the_first_fact_that_decides(left: Leftover, chosen: Next) -> None:
    assert recovered(left) is chosen


@pytest.mark.parametrize(
    ("ended", "chosen"),
    [
        (Ended(claimed_elsewhere=True, killed=True), Next.attach),
        (Ended(killed=True, claimed=True), Next.killed),
        (Ended(claimed=True), Next.died),
        (Ended(is_logged_only=True), Next.died),
        (Ended(hindered=True), Next.postpone),
        (Ended(), Next.queue_first),
        (Ended(unclaimed=1), Next.pause),
        (Ended(unclaimed=PROCESSES - 2), Next.pause),
        (Ended(unclaimed=PROCESSES - 1), Next.cannot_begin),
    ],
)
def test_job_without_a_return_begins_again_only_if_no_process_claimed_it(
    ended: Ended, chosen: Next
) -> None:
    assert after_end(ended) is chosen


def test_claimed_resumable_job_continues_up_to_the_attempt_limit() -> None:
    assert goes_on(resumable=True, claimed=True, attempts=0)
    assert not goes_on(resumable=False, claimed=True, attempts=0)
    assert not goes_on(resumable=True, claimed=False, attempts=0)
    assert not goes_on(resumable=True, claimed=True, attempts=ATTEMPTS - 1)


@pytest.mark.parametrize(
    ("begin_by", "not_after", "late"),
    [
        (None, 0.0, False),
        (None, 99.0, True),
        (None, 101.0, False),
        (9.0, 101.0, True),
        (11.0, 99.0, False),
    ],
)
def test_monotonic_limit_wins_over_the_wall_clock(
    begin_by: Optional[float], not_after: float, late: bool
) -> None:
    assert is_too_late(begin_by, not_after, now=10.0, wall=100.0) is late


def test_excess_names_the_limit_that_a_job_passes() -> None:
    assert excess(5.0, 10.0, 0, 100) == ""
    assert excess(11.0, 10.0, 0, 100) == "killed: not done after 10 seconds"
    assert excess(1.0, 10.0, OUTPUT_FLOOR, 100) == ""
    assert excess(1.0, 10.0, OUTPUT_FLOOR + 1, 100) == "killed: it printed more than 100 bytes"

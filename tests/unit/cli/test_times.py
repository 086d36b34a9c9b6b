from __future__ import annotations

import time
from datetime import datetime

import pytest

from catena.cli.times import moment
from catena.core.errors import UsageError


def test_now_is_zero_so_that_the_master_reads_its_own_clock() -> None:
    assert moment("now") == 0.0


def test_an_offset_counts_from_now() -> None:
    assert 3590 < moment("+1h") - time.time() < 3610


def test_a_time_of_day_is_the_next_one() -> None:
    assert 0 < moment("22:30") - time.time() <= 86400 + 3600


def test_a_date_with_an_offset_is_that_moment() -> None:
    wanted = datetime.fromisoformat("2026-12-01T04:00:00+00:00").timestamp()
    assert moment("2026-12-01T04:00Z") == wanted


@pytest.mark.parametrize("text", ["tomorrow", "25:00", "+5", "12:75", ""])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError):
        moment(text)

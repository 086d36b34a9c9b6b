from __future__ import annotations

import time
from datetime import datetime

import pytest

from catena.cli.times import moment
from catena.core.errors import UsageError


def test_time_now_is_zero() -> None:
    assert moment("now") == 0.0


def test_time_offset_is_relative_to_now() -> None:
    assert 3590 < moment("+1h") - time.time() < 3610


def test_time_of_day_is_its_next_occurrence() -> None:
    assert 0 < moment("22:30") - time.time() <= 86400 + 3600


def test_date_with_a_utc_offset_is_that_moment() -> None:
    wanted = datetime.fromisoformat("2026-12-01T04:00:00+00:00").timestamp()
    assert moment("2026-12-01T04:00Z") == wanted


@pytest.mark.parametrize("text", ["tomorrow", "25:00", "+5", "12:75", ""])
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        moment(text)

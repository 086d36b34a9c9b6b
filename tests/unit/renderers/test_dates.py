"""The dates that the filter strftime takes. What timelib makes of them under Salt was recorded."""

from __future__ import annotations

import sys
import time
from datetime import date, datetime
from typing import Any

import pytest
from jinja2.exceptions import TemplateRuntimeError

from catena.renderers import dates
from catena.renderers.filters_text import strftime

FORM = "%Y-%m-%d %H:%M:%S"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let it be Sunday, 2026-11-22 20:10:06, in a zone two hours ahead of UTC."""

    class Fixed(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2026, 11, 22, 20, 10, 6, tzinfo=tz)

    monkeypatch.setattr(dates, "datetime", Fixed)
    monkeypatch.setenv("TZ", "<+02>-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "2026-11-22 20:10:06"),
        ("now", "2026-11-22 20:10:06"),
        ("today", "2026-11-22 00:00:00"),
        ("Tomorrow", "2026-11-23 00:00:00"),
        ("yesterday", "2026-11-21 00:00:00"),
        ("noon", "2026-11-22 12:00:00"),
        (1040814000, "2002-12-25 13:00:00"),
        (1040814000.5, "2002-12-25 13:00:00"),
        ("1040814000", "2002-12-25 13:00:00"),
        ("1040814000.5", "2002-12-25 13:00:00"),
        (True, "1970-01-01 02:00:01"),
        (datetime(2002, 12, 25, 1, 2, 3), "2002-12-25 01:02:03"),
        (date(2002, 12, 25), "2002-12-25 00:00:00"),
        ("2002-12-25", "2002-12-25 00:00:00"),
        ("  2002-12-25  ", "2002-12-25 00:00:00"),
        ("20021225", "2002-12-25 00:00:00"),
        ("20021225101112", "2002-12-25 10:11:12"),
        ("2002-12-25T10:00:00Z", "2002-12-25 10:00:00"),
        ("2002-12-25 10:00:00 +0200", "2002-12-25 10:00:00"),
        ("2002/12/25", "2002-12-25 00:00:00"),
        ("December 25 2002", "2002-12-25 00:00:00"),
        ("25.12.2002", "2002-12-25 00:00:00"),
        ("2-1-2003", "2003-01-02 00:00:00"),
        ("12/25/2002", "2002-12-25 00:00:00"),
        ("10/11/12", "2012-10-11 00:00:00"),
        ("Wed, 25 Dec 2002 10:11:12 GMT", "2002-12-25 10:11:12"),
        ("25 Dec", "2026-12-25 00:00:00"),
        ("10:00", "2026-11-22 10:00:00"),
        ("10am", "2026-11-22 10:00:00"),
        ("Dec 2002", "2002-12-01 00:00:00"),
        ("2002-12", "2002-12-01 00:00:00"),
        ("monday", "2026-11-23 00:00:00"),
        ("07-Jun-2002", "2002-06-07 00:00:00"),
        ("02-03-04", "2002-03-04 00:00:00"),
        ("1-2-3", "2001-02-03 00:00:00"),
        ("99-03-04 10:00", "1999-03-04 10:00:00"),
        ("monday 02-03-04", "2002-03-04 00:00:00"),
        ("10:00 02-03-04", "2002-03-04 10:00:00"),
        ("25.12.72", "1972-12-25 00:00:00"),
        ("10/11/72", "1972-10-11 00:00:00"),
        ("25 Dec 69", "2069-12-25 00:00:00"),
        ("2002-12-25T10:00:00+05:00", "2002-12-25 10:00:00"),
        ("2002-12-25 10:00:00 EST", "2002-12-25 10:00:00"),
    ],
)
def test_date_is_that_of_salt(value: Any, found: str) -> None:
    assert strftime(value, FORM) == found


@pytest.mark.parametrize(
    "value",
    ["", "bogus", "2002", "123456", "20021332", "last monday", "-5 days", [], {}, "nan", "inf",
     "9" * 30, "13/32/2002", "2002-02-30", "5 minutes",
     "10 min", "2 h", "10h30", "5m", "3 weeks", "2 hours ago",
     "02.03.04", "10:00 02.03.04", "31-12-99", "2 sat", "sat 2", "Sat 25 Dec 2002"],
)  # fmt: skip
def test_invalid_or_ambiguous_date_is_refused(value: Any) -> None:
    with pytest.raises(TemplateRuntimeError, match="is not a date"):
        strftime(value)


@pytest.mark.parametrize("text", ["25.12.2002", "December 25 2002", "10:00"])
def test_error_without_dateutil_names_the_accepted_formats(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setitem(sys.modules, "dateutil", None)
    with pytest.raises(TemplateRuntimeError, match="install the Python package python-dateutil"):
        strftime(text)
    assert strftime("2002-12-25") == "2002-12-25"

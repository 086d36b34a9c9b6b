"""Dates as templates give them to the filters `strftime` and `date_format`.

Salt reads numbers, and with the package timelib nearly any text. Here texts are read by dateutil
where that is installed, by the rules of timelib where the two differ. A text that could be two
dates, or that nothing here can read, is an error: never a date that nobody meant.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Any, Callable, Dict, List, Tuple, Union

from jinja2.exceptions import TemplateRuntimeError

#: Words for a day at midnight -> days from today.
_DAYS = {"today": 0, "midnight": 0, "tomorrow": 1, "yesterday": -1}
#: Digits that are read as a date; other numbers are seconds since 1970.
_DIGITS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
#: Lengths of digits that are a year or a time of day: timelib reads "2002" as 20:02.
_UNCLEAR = (4, 6)
#: Dates with the day first: 25.12.2002, 25.12.02, 2-1-2003. With slashes the month is first.
_DAY_FIRST = re.compile(r"[0-9]{1,2}(-[0-9]{1,2}-[0-9]{4}|\.[0-9]{1,2}\.([0-9]{2}|[0-9]{4}))\b")
#: Dates with a short year, which is first: 02-12-25.
_SHORT_YEAR = re.compile(r"(?<![0-9-])([0-9]{1,2})-([0-9]{1,2})-([0-9]{1,2})(?![0-9])")
#: Numbers with dots that are a time of day too: 02.03.04.
_DOTTED_TIME = re.compile(
    r"(?<![0-9.:])([01]?[0-9]|2[0-4])\.[0-5]?[0-9](\.[0-5]?[0-9])?(?![0-9.])"
)
#: A number and a weekday: timelib counts weeks from today.
_COUNTED_DAY = re.compile(r"[0-9]+\s*(sun|mon|tue|wed|thu|fri|sat)(?!th)", re.IGNORECASE)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY = re.compile(rf"\b({'|'.join(_WEEKDAYS)})(?!th)", re.IGNORECASE)
#: Years below this number are of this century, if only two digits are given.
_CENTURY = 70


def date_of(value: Any) -> Union[date, datetime]:
    """Return the date that *value* means, in the time zone of this host.

    Args:
        value: a date, seconds since 1970, a text, or None for now.

    Raises:
        TemplateRuntimeError: it is no date, or could be two.
    """
    if isinstance(value, (date, datetime)):
        return value
    if value is None:
        return datetime.now()  # templates show the host's own time, as in Salt
    try:
        if isinstance(value, str):
            return _of_text(value.strip())
        return _of_seconds(value)
    except (OSError, OverflowError, TypeError, ValueError) as error:
        raise TemplateRuntimeError(f"{value!r} is not a date: {error}") from None


def _of_seconds(value: Any) -> datetime:
    return datetime.fromtimestamp(float(value))  # as above


def _of_text(text: str) -> datetime:
    word = text.lower()
    now = datetime.now()  # as above
    if word == "now":
        return now
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word == "noon":
        return midnight.replace(hour=12)
    if word in _DAYS:
        return midnight + timedelta(days=_DAYS[word])
    if text.isdigit():
        return _of_digits(text)
    try:
        return _of_seconds(text)
    except ValueError:
        pass
    if _DOTTED_TIME.search(text):
        raise ValueError("it may be a date or a time; write 2002-12-25 or 10:00")
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return _by_dateutil(text, midnight)


def _of_digits(text: str) -> datetime:
    if len(text) in _UNCLEAR:
        raise ValueError("it may be a year, a time or seconds; write 2002-12-25, or a number")
    form = _DIGITS.get(len(text))
    if form is not None:
        return datetime.strptime(text, form)  # the host's own time
    return _of_seconds(text)


def _by_dateutil(text: str, midnight: datetime) -> datetime:
    """Return the date of a text; parts that are missing are today's, or the first of the month."""
    try:
        from dateutil import parser  # type: ignore[import-untyped]  # no stubs; may be missing
    except ImportError:
        raise ValueError(
            "this host reads seconds since 1970 and ISO dates (2002-12-25 10:00:00); for others "
            "install the Python package python-dateutil"
        ) from None

    def parsed(default: datetime) -> datetime:
        first = _DAY_FIRST.match(text) is not None
        # As timelib under Salt, read the time as it is written, without its zone.
        found: datetime = reader.parse(text, default=default, dayfirst=first, ignoretz=True)
        return found

    class Words(parser.parserinfo):  # type: ignore[misc]  # no stubs
        """Reads no spans of time: "5 minutes" would be 00:05 of today."""

        HMS: List[Tuple[str, ...]] = []
        JUMP = [word for word in parser.parserinfo.JUMP if word != "m"]

        def convertyear(self, year: int, century_specified: bool = False) -> int:
            """Return the year that two digits mean under timelib."""
            return year if century_specified or year > 99 else _full(year)

    reader = parser.parser(Words())
    text = _unambiguous(text)
    named = _named(parsed)
    first_of_month = named["year"] and named["month"] and not named["day"]
    if named["year"] and not named["month"] and not named["day"]:
        raise ValueError("it contains only a year")
    found = parsed(midnight.replace(day=1) if first_of_month else midnight)
    _refuse_other_weekday(text, found)
    return found


def _unambiguous(text: str) -> str:
    """Return *text* with all digits of a year that is first; refuse what may be a time or span."""
    if _COUNTED_DAY.search(text) and not re.search(r"[0-9]{4}", text):
        raise ValueError("it may be a date or a number of weeks; write 2002-12-25")
    short = _SHORT_YEAR.search(text)
    if short is None:
        return text
    year, month, day = map(int, short.groups())
    return f"{text[: short.start()]}{date(_full(year), month, day)}{text[short.end() :]}"


def _refuse_other_weekday(text: str, found: datetime) -> None:
    """Refuse a date with the name of another weekday, which timelib moves to that weekday."""
    named = _WEEKDAY.search(text)
    if named and named[1].lower() != _WEEKDAYS[found.weekday()]:
        raise ValueError(f"{found:%Y-%m-%d} is another weekday")


def _full(year: int) -> int:
    return year + (2000 if year < _CENTURY else 1900)


def _named(parsed: Callable[[datetime], datetime]) -> Dict[str, bool]:
    """Return which parts of a date a text names: those that no default changes."""
    one, other = parsed(datetime(2001, 1, 1)), parsed(datetime(2004, 2, 12))
    return {part: getattr(one, part) == getattr(other, part) for part in ("year", "month", "day")}

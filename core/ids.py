"""The grammars of names that are sent or stored, and the maker of job ids.

Each name is checked where it enters (wire, command line, file) and then carried as a NewType, so
that no path, query or log line contains an unchecked one.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Callable, NewType

from catena.core.errors import UsageError
from catena.core.patterns import lazy_pattern

MinionId = NewType("MinionId", str)
MachineId = NewType("MachineId", str)
Jid = NewType("Jid", str)

_MINION_ID = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")
_MACHINE_ID = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_JID = lazy_pattern(r"[0-9]{20}\Z")
#: First year of a job id: no host's clock shows a time before the epoch.
_FIRST_YEAR = 1970
_REQUEST_KEY = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}\Z")
_LABEL_LIMIT = 256


class BadNameError(UsageError):
    """A name does not follow its grammar."""


def minion_id(text: str) -> MinionId:
    """Return *text* as a minion id.

    The grammar is a letter or digit, then up to 252 letters, digits, dots, hyphens, underscores.

    Raises:
        BadNameError: *text* does not follow it.
    """
    if not _MINION_ID.match(text):
        raise BadNameError(
            f"{text[:80]!r} is not a minion id: a letter or digit, then up to 252 of "
            "letters, digits, '.', '-', '_'"
        )
    return MinionId(text)


def machine_id(text: str) -> MachineId:
    """Return *text* as a machine id (at most 64 characters of the minion id's alphabet)."""
    if not _MACHINE_ID.match(text):
        raise BadNameError(f"{text[:80]!r} is not a machine id")
    return MachineId(text)


def jid(text: str) -> Jid:
    """Return *text* as a job id: a UTC time since 1970 as 20 digits, YYYYMMDDhhmmssffffff.

    Raises:
        BadNameError: *text* is not 20 digits, or the digits are not a time.
    """
    if not is_jid(text):
        raise BadNameError(
            f"{text[:80]!r} is not a job id: 20 digits that are a time, YYYYMMDDhhmmssffffff"
        )
    return Jid(text)


def is_jid(text: str) -> bool:
    """Return whether *text* is a job id."""
    return _JID.match(text) is not None and _is_time(text)


# Each return of a job brings the same jid; the digits are bounded before they are kept.
@lru_cache(maxsize=1024)
def _is_time(digits: str) -> bool:
    """Return whether 20 digits are a time since 1970."""
    try:
        jid_time(digits)
    except ValueError:
        return False
    return True


def jid_time(text: str) -> datetime:
    """Return the UTC time in a job id of 20 digits.

    Raises:
        ValueError: the digits are not a time since 1970.
    """
    year = int(text[:4])
    if year < _FIRST_YEAR:
        raise ValueError("before 1970")
    month, day, hour = int(text[4:6]), int(text[6:8]), int(text[8:10])
    rest = (int(text[10:12]), int(text[12:14]), int(text[14:]))
    return datetime(year, month, day, hour, *rest, tzinfo=timezone.utc)


def jid_at(moment: datetime) -> Jid:
    """Return the job id of *moment*, an aware datetime since 1970."""
    return Jid(moment.astimezone(timezone.utc).strftime("%Y%m%d%H%M%S%f"))


def label(text: str) -> str:
    """Return *text* as a chain label: 1 to 256 printable characters without outer spaces."""
    if not 0 < len(text) <= _LABEL_LIMIT or not text.isprintable() or text != text.strip():
        raise BadNameError(f"{text[:80]!r} is not a label: 1 to 256 printable characters")
    return text


def is_chain_id(text: str) -> bool:
    """Return whether *text* has the form of a chain's id: a decimal number without leading zeros.

    A label may be such a text, too; the chain with that id then has precedence.
    """
    return text.isascii() and text.isdigit() and len(text) < 19 and text[0] != "0"


def request_key(text: str) -> str:
    """Return *text* as the key of a client's request.

    The grammar is a letter or digit, then up to 127 letters, digits, and `.` `_` `:` `/` `-`.

    Raises:
        BadNameError: *text* does not follow it.
    """
    if not _REQUEST_KEY.match(text):
        raise BadNameError(
            f"{text[:80]!r} is not a request key: a letter or digit, then up to 127 of "
            "letters, digits, '.', '_', ':', '/', '-'"
        )
    return text


class JidFactory:
    """Makes job ids that increase and never repeat within one process.

    Args:
        now: returns the wall clock as an aware datetime.
        last: the highest jid in use. A restarted master passes the highest one of its store, so
            that no jid repeats after the clock was set back. An invalid jid is ignored.
    """

    def __init__(self, now: Callable[[], datetime], last: str = "") -> None:
        self._now = now
        self._last = ""
        with suppress(BadNameError):
            self._last = jid(last)

    def __call__(self) -> Jid:
        """Return the next job id, in UTC."""
        text = jid_at(self._now())
        if text <= self._last:
            # The last microsecond of the calendar has no successor; then use the clock.
            with suppress(OverflowError):
                text = jid_at(jid_time(self._last) + timedelta(microseconds=1))
        self._last = text
        return text

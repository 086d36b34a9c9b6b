"""The grammars of names that travel, and the maker of job ids.

Each name is checked where it enters (wire, command line, file) and carried as a NewType
afterwards, so that a path, a query or a log line never sees an unchecked one.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Callable, NewType

from catena.core.errors import UsageError
from catena.core.patterns import lazy_pattern

MinionId = NewType("MinionId", str)
MachineId = NewType("MachineId", str)
Jid = NewType("Jid", str)

_MINION_ID = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")
_MACHINE_ID = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_JID = lazy_pattern(r"[0-9]{20}\Z")
_LABEL_LIMIT = 256


class BadNameError(UsageError):
    """A name does not follow its grammar."""


def minion_id(text: str) -> MinionId:
    """Return *text* as a minion id; raise BadNameError unless it is one.

    The grammar is a letter or digit, then up to 252 letters, digits, dots, hyphens, underscores.
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
    """Return *text* as a job id (Salt's form: 20 digits, YYYYMMDDhhmmssffffff)."""
    if not _JID.match(text):
        raise BadNameError(f"{text[:80]!r} is not a job id: 20 digits")
    return Jid(text)


def label(text: str) -> str:
    """Return *text* as a chain label: 1 to 256 printable characters, no spaces at the ends."""
    if not 0 < len(text) <= _LABEL_LIMIT or not text.isprintable() or text != text.strip():
        raise BadNameError(f"{text[:80]!r} is not a label: 1 to 256 printable characters")
    return text


class JidFactory:
    """Makes job ids that grow and never repeat within one process.

    Args:
        now: the wall clock, as an aware datetime.
        last: the highest jid already used; a restarted master passes the store's, so that a clock
            that went back can't bring a jid twice.
    """

    def __init__(self, now: Callable[[], datetime], last: str = "") -> None:
        self._now = now
        self._last = last

    def __call__(self) -> Jid:
        """Return the next job id, in UTC."""
        stamp = self._now().astimezone(timezone.utc)
        text = stamp.strftime("%Y%m%d%H%M%S%f")
        if text <= self._last:
            after = datetime.strptime(self._last, "%Y%m%d%H%M%S%f") + timedelta(microseconds=1)
            text = after.strftime("%Y%m%d%H%M%S%f")
        self._last = text
        return Jid(text)

"""Times as users type them: now, +10m, 22:30, 2026-12-01T04:00."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from catena.core.errors import UsageError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AFTER = re.compile(r"\+(\d{1,6})([smhd])\Z")


def moment(text: str) -> float:
    """Return *text* as seconds since the epoch; 0.0 for now. Local time unless an offset is given.

    Raises:
        UsageError: the text is not a time.
    """
    if text == "now":
        return 0.0
    here = datetime.now().astimezone()
    after = _AFTER.match(text)
    if after:
        return (here + timedelta(**{_UNITS[after[2]]: int(after[1])})).timestamp()
    if re.match(r"\d{1,2}:\d{2}\Z", text):
        hour, minute = (int(part) for part in text.split(":"))
        if hour > 23 or minute > 59:
            raise UsageError(f"{text!r} is not a time of day")
        found = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return (found if found > here else found + timedelta(days=1)).timestamp()
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone().timestamp()
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time; use now, +10m, 22:30 or 2026-12-01T04:00"
        ) from None

"""How often a process looks for garbage that reference counts don't free."""

from __future__ import annotations

import gc

#: New objects until the youngest are looked at, and looks until the older ones are. A large state
#: run makes a million objects that all stay: with Python's own numbers a fifth of its time went
#: into looking at them; memory at the end is the same. The imports of a short command were looked
#: at 36 times, 6 of its 110 ms.
_SELDOM = (300_000, 20, 100)
#: Python's own.
_OFTEN = (700, 10, 10)


def look_seldom() -> None:
    """Look for garbage less often from now on; for processes that end with their job."""
    gc.set_threshold(*_SELDOM)


def look_often() -> None:
    """Look for garbage as often as Python does by itself; for processes that stay."""
    gc.set_threshold(*_OFTEN)

"""How often the process of a job looks for garbage that reference counts don't free."""

from __future__ import annotations

import gc

#: New objects until the youngest are looked at, and looks until the older ones are. A large state
#: run makes a million objects that all stay: with Python's own numbers a fifth of its time went
#: into looking at them; memory at the end is the same.
_THRESHOLDS = (300_000, 20, 100)


def look_seldom() -> None:
    """Look for garbage less often from now on; for processes that end with their job."""
    gc.set_threshold(*_THRESHOLDS)

"""Frequency of Python's cyclic garbage collection in a process."""

from __future__ import annotations

import gc

#: Arguments of gc.set_threshold(). A large state run makes a million objects that all stay. With
#: Python's defaults, collections take a fifth of its time and free no memory. During the imports
#: of a short command, 36 collections take 6 of its 110 ms.
_RARELY = (300_000, 20, 100)
#: Python's defaults.
_BY_DEFAULT = (700, 10, 10)


def collect_rarely() -> None:
    """Collect less often from now on; for processes that end with their job."""
    gc.set_threshold(*_RARELY)


def collect_by_default() -> None:
    """Collect as often as Python does by default; for long-running processes."""
    gc.set_threshold(*_BY_DEFAULT)

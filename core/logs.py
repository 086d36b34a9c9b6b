"""Loggers that import `logging` only when there is something to log.

The import takes a twentieth of a short command's time, and 0.7 MB of a long-running process. Most
processes log nothing. A process that wants to see log lines configures `logging` itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import logging

#: Levels that are dropped while `logging` is not configured.
_QUIET = frozenset({"debug", "info"})


class _Logger:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name in _QUIET and "logging" not in sys.modules:
            return _unheard
        import logging

        return getattr(logging.getLogger(self._name), name)


def _unheard(*_: Any, **__: Any) -> None:
    """Drop a log record."""


def logger(name: str) -> logging.Logger:
    """Return a lazy replacement for `logging.getLogger(name)`."""
    return cast("logging.Logger", _Logger(name))

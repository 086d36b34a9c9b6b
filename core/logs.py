"""Loggers that import `logging` when there is something to say.

To import it takes a twentieth of a short command, and 0.7 MB of a process that stays; most of them
end without a word. Whoever wants to read what is said sets it up with `logging` itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import logging

#: What nobody hears in a process in which nobody has set `logging` up.
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
    """Say nothing."""


def logger(name: str) -> logging.Logger:
    """Return what stands for `logging.getLogger(name)`."""
    return cast("logging.Logger", _Logger(name))

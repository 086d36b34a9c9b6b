"""paramiko, imported when the first host is called, quickly and quietly."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

from catena.core.errors import UnreachableError

_LOCK = threading.Lock()
#: It serves `Match exec` alone, which we refuse, and is half of the time that paramiko takes.
_NOT_NEEDED = "invoke"


def paramiko() -> Any:
    """Return paramiko.

    Raises:
        UnreachableError: it is not installed.
    """
    with _LOCK:
        if "paramiko" not in sys.modules:
            _import()
    return sys.modules["paramiko"]


def _import() -> None:
    spared = _NOT_NEEDED not in sys.modules
    if spared:
        # Python's way to say that there is none; paramiko goes on without.
        sys.modules[_NOT_NEEDED] = None  # type: ignore[assignment]  # what the import system reads
    try:
        import paramiko.agent  # noqa: F401  # paramiko.agent is looked up by who uses agents
    except ModuleNotFoundError as error:
        raise UnreachableError(
            f"SSH needs {error.name}: install catena with its extra: catena[master]"
        ) from None
    finally:
        if spared:
            del sys.modules[_NOT_NEEDED]
    # It logs what it raises as well, with a traceback; our errors say it in one line.
    log = logging.getLogger("paramiko")
    if not log.handlers:
        # Python shows warnings of loggers that nobody has set up.
        log.addHandler(logging.NullHandler())
    log.propagate = False

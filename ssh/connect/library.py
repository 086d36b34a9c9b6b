"""paramiko, imported when the first host is called, quickly and quietly."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from catena.core.errors import UnreachableError
from catena.core.import_stubs import StandIn, standing_in

_LOCK = threading.Lock()
#: It serves `Match exec` alone, which we refuse, and is half of the time that paramiko takes.
_NOT_NEEDED = "invoke"
_RECORD = ".dist-info"


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
        with _short_ways():
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


@contextmanager
def _short_ways() -> Iterator[None]:
    """Let what paramiko asks of two modules when it is imported be answered without them.

    It looks for its version in the records of all that is installed, with a parser of e-mail; and
    what it builds on has dataclasses, whose help texts show signatures. A tenth of a ping, both.
    """
    imported = False

    def signature(call: Any) -> Any:
        import inspect

        return inspect.signature(call) if imported else "(…)"

    with standing_in(
        StandIn("importlib.metadata", version=_version), StandIn("inspect", signature=signature)
    ):
        yield
    imported = True


def _version(name: str) -> str:
    """Return the version of an installed package, as the name of its record says it."""
    for folder in map(Path, sys.path):
        for record in folder.glob(f"{name}-*{_RECORD}"):
            return record.name[len(name) + 1 : -len(_RECORD)]
    from importlib.metadata import version

    return version(name)

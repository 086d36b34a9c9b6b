"""Import paramiko on first use, quickly and without its log messages."""

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
#: A package that paramiko needs only for `Match exec`, which is refused; half of its import time.
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
        # None in sys.modules makes the import fail; paramiko works without the package.
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
    # paramiko logs its exceptions with a traceback; catena's errors are one line.
    log = logging.getLogger("paramiko")
    if not log.handlers:
        # Without a handler, Python prints warnings to stderr.
        log.addHandler(logging.NullHandler())
    log.propagate = False


@contextmanager
def _short_ways() -> Iterator[None]:
    """Replace two slow modules while paramiko is imported.

    paramiko reads its version from the package metadata with an e-mail parser, and dataclasses of
    its dependencies compute signatures for their docstrings. Both take a tenth of a ping's time.
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
    """Return the version of an installed package from the name of its metadata folder."""
    for folder in map(Path, sys.path):
        for record in folder.glob(f"{name}-*{_RECORD}"):
            return record.name[len(name) + 1 : -len(_RECORD)]
    from importlib.metadata import version

    return version(name)

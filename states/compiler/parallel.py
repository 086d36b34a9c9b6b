"""`parallel: True`: a state that runs in a process of its own, beside those that follow it."""

from __future__ import annotations

import os
import pickle
import threading
from typing import Callable, Optional

from catena.states.compiler.model import Row


def possible() -> bool:
    """Return whether this process may have children that go on in its middle."""
    return hasattr(os, "fork") and threading.active_count() == 1


class Child:
    """A child process that works out one row.

    It is a copy of this process: what it changes in memory (`__context__`) is its own.

    Args:
        work: run in the child; returns the row.
    """

    def __init__(self, work: Callable[[], Row]) -> None:
        self._read, write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _be(work, write)
        os.close(write)

    def row(self) -> Optional[Row]:
        """Wait for the row; None where the child ended without one."""
        with os.fdopen(self._read, "rb") as stream:
            data = stream.read()
        os.waitpid(self._pid, 0)
        row: Optional[Row] = pickle.loads(data) if data else None
        return row


def _be(work: Callable[[], Row], write: int) -> None:
    """Be the child; never return."""
    code = 1
    try:
        data = pickle.dumps(work())
        with os.fdopen(write, "wb") as stream:
            stream.write(data)
        code = 0
    finally:
        # Nothing of the parent's may end twice: its buffers, its files, its handlers.
        os._exit(code)

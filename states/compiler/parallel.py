"""`parallel: True`: run a state in a child process, in parallel with the following states."""

from __future__ import annotations

import os
import select
import signal
import threading
from typing import Callable, Collection, NoReturn, Optional

from catena.core.custom_faults import error_line
from catena.core.logs import logger
from catena.modules.shared.command import tree
from catena.states.compiler.model import Row

log = logger(__name__)

#: prctl(2) option: the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1


class StoppedError(BaseException):
    """This process must end now, together with its children."""


def possible() -> bool:
    """Return whether this process may fork and continue in the child.

    A fork beside other threads may copy a lock that no thread releases. The log names these
    threads, because parallel states then run one after the other for no visible reason.
    """
    others = [thread.name for thread in threading.enumerate()[1:]]
    if others:
        log.info("parallel states run one after the other beside threads: %s", ", ".join(others))
    return hasattr(os, "fork") and not others


class Child:
    """A child process that computes one row.

    The child is a copy of this process: its changes in memory (`__context__`) are not visible
    here. It ends with this process, even if that is killed, because its row could not be recorded.

    Args:
        work: returns the row; runs in the child.
    """

    def __init__(self, work: Callable[[], Row]) -> None:
        import ctypes

        # Looked up before the fork, so that not every child has to.
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        parent = os.getpid()
        self._read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _be(work, write, parent, prctl)
        os.close(write)
        #: The child's error if it sent no row; set by `row`.
        self.fault = ""

    def speaks(self, seconds: float) -> bool:
        """Return whether the child has sent its row or ended, after at most the given seconds."""
        return bool(select.select([self._read], [], [], seconds)[0])

    def row(self) -> Optional[Row]:
        """Wait for the row and return it; None if the child ended without one."""
        with os.fdopen(self._read, "rb") as stream:
            data = stream.read()
        os.waitpid(self.pid, 0)
        import pickle

        said = pickle.loads(data) if data else None
        if isinstance(said, str):
            self.fault, said = said, None
        row: Optional[Row] = said
        return row

    def close(self) -> None:
        """Release the resources of a child that has ended."""
        os.close(self._read)
        os.waitpid(self.pid, 0)


def end_all(children: Collection[Child]) -> None:
    """Kill children and all processes that they started."""
    for child in children:
        tree.kill(child.pid)
        child.close()


def _be(
    work: Callable[[], Row], write: int, parent: int, prctl: Callable[[int, int], int]
) -> NoReturn:
    """Run the child's part of the fork; never return."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, _leave)
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() == parent:
            with os.fdopen(write, "wb") as stream:
                stream.write(_said(work))
            code = 0
    finally:
        # Skip the parent's buffers, files and exit handlers, which the parent itself processes.
        os._exit(code)


def _said(work: Callable[[], Row]) -> bytes:
    """Return the message for the parent: the row, or the error."""
    import pickle

    try:
        return pickle.dumps(work())
    except Exception as error:  # a state may put anything into its row
        log.debug("a parallel state failed", exc_info=True)
        return pickle.dumps(error_line(error))


def _leave(*_: object) -> NoReturn:
    raise StoppedError

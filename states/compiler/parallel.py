"""`parallel: True`: a state that runs in a process of its own, beside those that follow it."""

from __future__ import annotations

import os
import select
import signal
import threading
from typing import Callable, Collection, NoReturn, Optional

from catena.core.custom_faults import told
from catena.core.logs import logger
from catena.modules.shared.command import tree
from catena.states.compiler.model import Row

log = logger(__name__)

#: prctl(2): the signal that a process gets when the one that made it ends, however it does.
_PR_SET_PDEATHSIG = 1


class StoppedError(BaseException):
    """This process is to end now; what it started ends with it."""


def possible() -> bool:
    """Return whether this process may have children that go on in its middle.

    A fork beside other threads may copy a lock that nobody releases. The log names the threads: a
    state that waits for its neighbour would otherwise wait for no visible reason.
    """
    others = [thread.name for thread in threading.enumerate()[1:]]
    if others:
        log.info("parallel states run one after the other beside threads: %s", ", ".join(others))
    return hasattr(os, "fork") and not others


class Child:
    """A child process that works out one row.

    It is a copy of this process: what it changes in memory (`__context__`) is its own. It ends
    with this process, even with one that is killed: nobody would record what it does then.

    Args:
        work: run in the child; returns the row.
    """

    def __init__(self, work: Callable[[], Row]) -> None:
        import ctypes

        # Found before the fork: a child that is begun often should not look for it each time.
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        parent = os.getpid()
        self._read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _be(work, write, parent, prctl)
        os.close(write)
        #: Why there is no row, where the child could say so; known once the row was asked for.
        self.fault = ""

    def speaks(self, seconds: float) -> bool:
        """Return whether `row` has something to read, or the child's end, within some time."""
        return bool(select.select([self._read], [], [], seconds)[0])

    def row(self) -> Optional[Row]:
        """Wait for the row; None where the child ended without one."""
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
        """Forget a child that has ended."""
        os.close(self._read)
        os.waitpid(self.pid, 0)


def end_all(children: Collection[Child]) -> None:
    """Kill children with all that they started."""
    for child in children:
        tree.kill(child.pid)
        child.close()


def _be(
    work: Callable[[], Row], write: int, parent: int, prctl: Callable[[int, int], int]
) -> NoReturn:
    """Be the child; never return."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, _leave)
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() == parent:
            with os.fdopen(write, "wb") as stream:
                stream.write(_said(work))
            code = 0
    finally:
        # Nothing of the parent's may end twice: its buffers, its files, its handlers.
        os._exit(code)


def _said(work: Callable[[], Row]) -> bytes:
    """Return the row, or why there is none, for the parent."""
    import pickle

    try:
        return pickle.dumps(work())
    except Exception as error:  # a state may put anything into its row
        log.debug("a parallel state failed", exc_info=True)
        return pickle.dumps(told(error))


def _leave(*_: object) -> NoReturn:
    raise StoppedError

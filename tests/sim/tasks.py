"""Simulated programs: which one runs now, and how each may be killed while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.sim.clockwork import SimLoop


class Killed(BaseException):
    """Ends a simulated program where it stands; nothing of the product may stop it."""


class Program:
    """Something that runs on a host and can be killed: an agent, a job, a master.

    Args:
        name: for the trace.
        host: on whose disk it works.
    """

    def __init__(self, name: str, host: Any) -> None:
        self.name = name
        self.host = host
        self.dead = False
        #: How many of its next steps on the disk it survives; None: all.
        self.steps_left: int | None = None
        #: Called when that many are done.
        self.fate: Callable[[], None] = lambda: None


class Turn:
    """Whose turn it is: one program at a time runs, in all the world."""

    def __init__(self) -> None:
        self.running: Program | None = None

    @contextmanager
    def of(self, program: Program | None) -> Iterator[None]:
        """Let *program* run."""
        before, self.running = self.running, program
        try:
            yield
        finally:
            self.running = before


class Job(Program):
    """A program that waits in the midst of its work, so it has a thread; only one thread runs.

    Args:
        name, host: as of every program.
        loop: the time.
        turn: see Turn.
        work: what it does.
        ended: called in the loop when it is over, whatever way.
    """

    def __init__(
        self,
        name: str,
        host: Any,
        loop: SimLoop,
        turn: Turn,
        work: Callable[[Job], None],
        ended: Callable[[], None],
    ) -> None:
        super().__init__(name, host)
        self._loop, self._turn, self._work, self._ended = loop, turn, work, ended
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.over = False
        self.error: BaseException | None = None
        self._waits = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin; called in the loop."""
        self._thread.start()
        self._switch()

    def kill(self) -> None:
        """End it where it stands; called in the loop, or by itself."""
        self.dead = True
        if not self.over and threading.current_thread() is not self._thread:
            self._switch()

    def sleep(self, seconds: float) -> None:
        """Let time pass; called by its work."""
        self.wait(lambda wake: self._loop.call_later(seconds, wake))

    def wait(self, begin: Callable[[Callable[[], None]], object]) -> None:
        """Stop until *begin*'s argument is called, in the loop; called by its work."""
        self.check()
        self._waits += 1
        mine = self._waits

        def wake() -> None:
            if self._waits == mine and not self.over and not self.dead:
                self._switch()

        begin(wake)
        before, self._turn.running = self._turn.running, None
        self._stopped.release()
        self._go.acquire()
        self._turn.running = before
        self.check()

    def check(self) -> None:
        """Stop for ever if it is killed.

        Raises:
            Killed: it is.
        """
        if self.dead:
            raise Killed

    def _switch(self) -> None:
        before = self._turn.running
        self._waits += 1
        self._go.release()
        self._stopped.acquire()
        self._turn.running = before
        if self.over:
            self._thread.join()
            self._loop.call_soon(self._ended)

    def _run(self) -> None:
        self._go.acquire()
        self._turn.running = self
        try:
            self.check()
            self._work(self)
        except Killed:
            self.dead = True
        except BaseException as error:  # noqa: BLE001  # the world asks for it
            self.error = error
        finally:
            self.over = True
            self._stopped.release()

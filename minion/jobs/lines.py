"""The socket pairs between the daemon and job processes, and the warm processes that wait there.

A process that its job left unchanged waits some seconds for another one. The daemon sends it the
next job over the socket pair and receives the outcome there, without files. Until the daemon has
stored an outcome, the process keeps it. If the connection ends without a GO, the process writes
the outcome into the job's folder, where the next daemon finds it.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Callable, Dict, Optional

from catena.core.frozen import dataclass
from catena.minion.jobs.ports import ForkListener
from catena.minion.jobs.processes import ProcessRef

if TYPE_CHECKING:  # job processes import the messages of this module, but have no ZeroMQ
    from catena.minion.loop import Loop

#: First bytes of a message of a process that can take another job. FREE: the outcome is in the
#: folder of its last job. DONE: the outcome follows in the message.
FREE, DONE = b"free", b"done"
#: Tells a process to exit; no order begins with these bytes.
GO = b"go"
#: Maximum bytes of an order, and of an outcome, that are sent over a socket pair.
GIVEN_BYTES = 64 * 1024
#: Seconds for which a process waits for another job. It uses as much memory as the template.
REST_SECONDS = 2.0


@dataclass
class _Line:
    """The daemon's end of a socket pair."""

    socket: socket.socket
    #: Module of the functions whose jobs the process can run.
    module: str
    #: Job that it runs; "" while it waits.
    jid: str
    #: Monotonic time at which its wait ends; 0.0: not set yet.
    until: float = 0.0
    #: Whether it gets no further job.
    last: bool = False


class Lines:
    """The socket pairs of this daemon.

    Args:
        loop: watches them.
        listener: notified of outcomes.
        left: called with a process whose socket pair is closed.
    """

    def __init__(
        self, loop: Loop, listener: ForkListener, left: Callable[[ProcessRef], None]
    ) -> None:
        self._loop, self._listener, self._left = loop, listener, left
        self._lines: Dict[ProcessRef, _Line] = {}

    def __contains__(self, process: ProcessRef) -> bool:
        return process in self._lines

    def add(self, process: ProcessRef, line: socket.socket, module: str, jid: str) -> None:
        """Watch the socket of a process that was forked for *jid*."""
        self._lines[process] = _Line(line, module, jid)
        self._loop.watch(line.fileno(), lambda _mask: self.hear(process))

    def free(self, module: str) -> Optional[ProcessRef]:
        """Return a process that waits for a job of *module*; None if there is none."""
        for process, line in self._lines.items():
            if line.module == module and not (line.jid or line.last):
                return process
        return None

    def give(self, process: ProcessRef, jid: str, order: bytes) -> bool:
        """Send a job to a waiting process; return False if it is gone or the order is too long."""
        line = self._lines.get(process)
        if line is None or line.jid or line.last or len(order) > GIVEN_BYTES:
            return False
        try:
            line.socket.send(order, socket.MSG_DONTWAIT)
        except OSError:
            self.drop(process)
            return False
        line.jid = jid
        return True

    def hear(self, process: ProcessRef) -> None:
        """Read a process's message, if there is one."""
        line = self._lines.get(process)
        if line is None:
            return
        try:
            said = line.socket.recv(len(DONE) + GIVEN_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        jid, line.jid, line.until = line.jid, "", 0.0
        if said == FREE:
            self._listener.finished(jid)
        elif said and not self._listener.handed(jid, said[len(DONE) :]):
            # Closing without GO makes the process write the outcome into the job's folder.
            line.jid, line.last = jid, True
        if not said or line.last:
            self.drop(process)

    def retire(self, process: ProcessRef) -> None:
        """Let a process exit, at once or after its job."""
        line = self._lines.get(process)
        if line is not None:
            line.last = True
            if not line.jid:
                self.drop(process)

    def retire_all(self) -> None:
        """Let every process exit, at once or after its job."""
        for process in list(self._lines):
            self.retire(process)

    def drop(self, process: ProcessRef) -> None:
        """Close the socket of a process."""
        line = self._lines.pop(process, None)
        if line is None:
            return
        self._loop.forget(line.socket.fileno())
        if not line.jid:
            with contextlib.suppress(OSError):
                line.socket.send(GO, socket.MSG_DONTWAIT)
        line.socket.close()
        self._left(process)

    def service(self, now: float) -> None:
        """Let processes exit that have waited too long for a job."""
        for process, line in list(self._lines.items()):
            if line.jid:
                continue
            line.until = line.until or now + REST_SECONDS
            if line.until <= now:
                self.drop(process)

    def next_due(self) -> Optional[float]:
        """Return when `service` next has something to do; None: nothing."""
        return min((line.until for line in self._lines.values() if not line.jid), default=None)

    def close(self) -> None:
        """Close all sockets; running jobs continue and leave their outcomes in their folders."""
        for process in list(self._lines):
            self.drop(process)

"""The lines between the daemon and the processes of its jobs, and who waits for another job there.

A process that is as it was before its job stays for some seconds. It is given its next job over
its line, and hands the outcome over it: no file, and nobody in between. As long as nobody has kept
an outcome, the process has it: who meets the end of the line without having been told to go writes
it into the job's folder, where the next daemon finds it.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Callable, Dict, Optional

from catena.core.frozen import dataclass
from catena.minion.jobs.ports import ForkListener
from catena.minion.jobs.processes import ProcessRef

if TYPE_CHECKING:  # jobs read the words of a line here, and have no ZeroMQ
    from catena.minion.loop import Loop

#: Said by a process that may have another job: the outcome lies in the folder of its last one, or
#: it is the rest of the message.
FREE, DONE = b"free", b"done"
#: Said to a process that has no more jobs; an order never begins so.
GO = b"go"
#: Largest order, and largest outcome, of a job that is given so.
GIVEN_BYTES = 64 * 1024
#: How long a process waits for another job. It is as large as the template.
REST_SECONDS = 2.0


@dataclass
class _Line:
    """The daemon's end of one."""

    socket: socket.socket
    #: Of the functions whose jobs its process can have.
    module: str
    #: What it works on; "" when it waits.
    jid: str
    #: Until when it waits, monotonic; 0.0: since this moment.
    until: float = 0.0
    #: It is to have no other job.
    last: bool = False


class Lines:
    """The lines of this daemon.

    Args:
        loop: where they are read.
        listener: told of outcomes.
        left: told of a process that has no line any more.
    """

    def __init__(
        self, loop: Loop, listener: ForkListener, left: Callable[[ProcessRef], None]
    ) -> None:
        self._loop, self._listener, self._left = loop, listener, left
        self._lines: Dict[ProcessRef, _Line] = {}

    def __contains__(self, process: ProcessRef) -> bool:
        return process in self._lines

    def add(self, process: ProcessRef, line: socket.socket, module: str, jid: str) -> None:
        """Keep the line of a process that was forked for *jid*."""
        self._lines[process] = _Line(line, module, jid)
        self._loop.watch(line.fileno(), lambda _mask: self.hear(process))

    def free(self, module: str) -> Optional[ProcessRef]:
        """Return a process that waits for a job of *module*; None: nobody does."""
        for process, line in self._lines.items():
            if line.module == module and not (line.jid or line.last):
                return process
        return None

    def give(self, process: ProcessRef, jid: str, order: bytes) -> bool:
        """Give a job to a process that waits; False: it is gone, or the order is too long."""
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
        """Take what a process has said, if it has."""
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
            # So that it is not told to go: what nobody could keep it leaves in the job's folder.
            line.jid, line.last = jid, True
        if not said or line.last:
            self.drop(process)

    def retire(self, process: ProcessRef) -> None:
        """Let a process go, at once or after its job."""
        line = self._lines.get(process)
        if line is not None:
            line.last = True
            if not line.jid:
                self.drop(process)

    def retire_all(self) -> None:
        """Let every process go, at once or after its job."""
        for process in list(self._lines):
            self.retire(process)

    def drop(self, process: ProcessRef) -> None:
        """Hang up."""
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
        """Let processes go that nobody gave a job for long."""
        for process, line in list(self._lines.items()):
            if line.jid:
                continue
            line.until = line.until or now + REST_SECONDS
            if line.until <= now:
                self.drop(process)

    def next_due(self) -> Optional[float]:
        """Return when `service` has something to do; None: nothing."""
        return min((line.until for line in self._lines.values() if not line.jid), default=None)

    def close(self) -> None:
        """Hang up on all; what runs goes on, and leaves its outcome in its folder."""
        for process in list(self._lines):
            self.drop(process)

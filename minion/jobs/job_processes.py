"""The processes of jobs: forked from the template, watched through descriptors, and killed."""

from __future__ import annotations

import os
import socket
from typing import Callable, Dict, List, Optional

from catena.core import failpoints
from catena.core.files import size_of
from catena.core.frozen import dataclass
from catena.minion.jobs import processes
from catena.minion.jobs.lines import Lines
from catena.minion.jobs.ports import ForkListener
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.template_link import TemplateLink
from catena.minion.loop import Loop
from catena.minion.start.blob import StartData

#: Maximum length of a module name sent to the template; longer ones are never built-in modules.
_NAME_LENGTH = 64


@dataclass
class _Watched:
    """A process whose end the kernel reports through a descriptor."""

    handle: int
    #: Called at the end of the process; None while it has no job.
    ended: Optional[Callable[[], None]]


class JobProcesses:
    """The `ports.Processes` of the daemon.

    Args:
        loop: watches processes, their sockets and the template.
        boot_id: id of the running boot; "" if unknown: then no process counts as alive, so none is
            killed by mistake.
        listener: notified of forks and outcomes.
    """

    def __init__(self, loop: Loop, boot_id: str, listener: ForkListener) -> None:
        self._loop, self._boot_id, self._listener = loop, boot_id, listener
        self._template = TemplateLink(loop, self)
        self._lines = Lines(loop, listener, self._left)
        self._watched: Dict[ProcessRef, _Watched] = {}

    def fork(self, jid: str, fun: str, start: StartData, now: float) -> None:
        """Request a process for job *jid*, which calls *fun*; the listener receives the result.

        Raises:
            OSError: no process could be created.
        """
        failpoints.hit("agent.fork.before")
        self._template.fork(jid, _module(fun), start, now)

    def forked(
        self, jid: str, pid: int, start: Optional[int], module: str, line: socket.socket
    ) -> None:
        """Implement template_link.Forked."""
        if start is None or not self._boot_id:
            line.close()
            self._listener.forked(jid, pid, start)
            return
        process = ProcessRef(pid, start, self._boot_id)
        self._lines.add(process, line, module, jid)
        self._listener.forked(jid, pid, start)
        if process not in self._watched:
            # Do not send further jobs to a process whose end is not reported.
            self._lines.retire(process)

    def unforked(self, jids: List[str]) -> None:
        """Implement template_link.Forked."""
        self._lines.retire_all()
        self._listener.unforked(jids)

    def free(self, fun: str) -> Optional[ProcessRef]:
        """Return a warm process for a job of function *fun*; None if one must be forked."""
        return self._lines.free(_module(fun))

    def give(self, process: ProcessRef, jid: str, order: bytes, ended: Callable[[], None]) -> bool:
        """Send a job to a warm process and call *ended* at its end; return False if it is gone."""
        watched = self._watched.get(process)
        if watched is None or not self._lines.give(process, jid, order):
            return False
        watched.ended = ended
        return True

    def alive(self, process: ProcessRef) -> bool:
        """Return whether this very process still runs."""
        return processes.is_alive(process, self._boot_id)

    def watch(self, process: ProcessRef, ended: Callable[[], None]) -> bool:
        """Call *ended* when a process ends; return False if only polling `alive` can tell."""
        handle = processes.open_pidfd(process, self._boot_id)
        if handle < 0:
            return False
        self._watched[process] = _Watched(handle, ended)
        self._loop.watch(handle, lambda _mask: self._end(process))
        return True

    def forget(self, process: ProcessRef) -> None:
        """Call nobody when a process ends; a warm process remains watched."""
        watched = self._watched.get(process)
        if watched is not None and process in self._lines:
            watched.ended = None
        else:
            self._unwatch(process)

    def _end(self, process: ProcessRef) -> None:
        # Its last message may still be in the socket.
        self._lines.hear(process)
        watched = self._watched.get(process)
        ended = watched.ended if watched else None
        self._lines.drop(process)
        if ended is not None:
            ended()
        if self._watched.get(process) is watched:  # unless *ended* watches it again
            self._unwatch(process)

    def _left(self, process: ProcessRef) -> None:
        """Drop a process without a socket if it has no job either."""
        watched = self._watched.get(process)
        if watched is not None and watched.ended is None:
            self._unwatch(process)

    def _unwatch(self, process: ProcessRef) -> None:
        watched = self._watched.pop(process, None)
        if watched is not None:
            self._loop.forget(watched.handle)
            os.close(watched.handle)

    def printed(self, process: ProcessRef) -> int:
        """Return the number of bytes that a process has written to its standard output."""
        return size_of(f"/proc/{process.pid}/fd/1")

    def signal(self, process: ProcessRef, number: int) -> None:
        """Send a signal to a process and its descendants, which is then never reused."""
        self._lines.retire(process)
        processes.signal_tree(process, self._boot_id, number)

    def kill(self, process: ProcessRef, scope: str) -> None:
        """Kill a process with its descendants, and all other processes in its systemd scope."""
        self._lines.retire(process)
        processes.kill_tree(process, self._boot_id, scope)

    def tick(self, now: float) -> None:
        """Reap templates that have ended, and release idle warm processes."""
        self._template.reap()
        self._lines.service(now)

    def next_due(self) -> Optional[float]:
        """Return when `tick` next has something to do; None: nothing."""
        return self._lines.next_due()

    def rest(self, now: float, idle_seconds: float) -> None:
        """Stop a template that has not been used for *idle_seconds*."""
        template = self._template
        if template.alive and not template.busy and now - template.last_used > idle_seconds:
            template.close()

    def renew(self) -> None:
        """Fork the next jobs from a new template, which starts with the newest grains."""
        if not self._template.busy:
            self._template.close()
        self._lines.retire_all()

    def close(self) -> None:
        """Release everything; running jobs continue."""
        self._lines.close()
        for process in list(self._watched):
            self._unwatch(process)
        self._template.close()


def _module(fun: str) -> str:
    return fun.partition(".")[0][:_NAME_LENGTH]

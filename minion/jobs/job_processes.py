"""The processes of jobs on this host: forked from the template, watched by descriptor, killed."""

from __future__ import annotations

import os
from typing import Callable, Dict

from catena.core import failpoints
from catena.minion.jobs import processes
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.runner import ForkListener
from catena.minion.jobs.template_link import TemplateLink
from catena.minion.loop import Loop
from catena.minion.start.blob import Start


class JobProcesses:
    """The `runner.Processes` of the daemon.

    Args:
        loop: where processes and the template are watched.
        boot_id: id of the running boot; "" where it is unknown: nothing is then taken for alive,
            so nothing is ever killed by mistake.
        listener: told of forks.
    """

    def __init__(self, loop: Loop, boot_id: str, listener: ForkListener) -> None:
        self._loop, self._boot_id = loop, boot_id
        self._template = TemplateLink(loop, listener)
        self._watched: Dict[ProcessRef, int] = {}

    def fork(self, jid: str, fun: str, start: Start, now: float) -> None:
        """Have job *jid*, which calls *fun*, forked; the listener is told of what came of it.

        Raises:
            OSError: no process could be made.
        """
        failpoints.hit("agent.fork.before")
        self._template.fork(jid, fun, start, now)

    def alive(self, process: ProcessRef) -> bool:
        """Return whether exactly this process still runs."""
        return processes.is_alive(process, self._boot_id)

    def watch(self, process: ProcessRef, ended: Callable[[], None]) -> bool:
        """Call *ended* when a process has ended; False: nobody will tell, ask `alive`."""
        handle = processes.open_pidfd(process, self._boot_id)
        if handle < 0:
            return False
        self._watched[process] = handle
        self._loop.watch(handle, lambda _mask: ended())
        return True

    def forget(self, process: ProcessRef) -> None:
        """Watch a process no longer."""
        handle = self._watched.pop(process, -1)
        if handle >= 0:
            self._loop.forget(handle)
            os.close(handle)

    def signal(self, process: ProcessRef, number: int) -> None:
        """Send a signal to a process and all below it."""
        processes.signal_tree(process, self._boot_id, number)

    def kill(self, process: ProcessRef, scope: str) -> None:
        """Kill a process with all that came from it, and what else is in its systemd scope."""
        processes.kill_tree(process, self._boot_id, scope)

    def tick(self) -> None:
        """Collect templates that have ended."""
        self._template.reap()

    def rest(self, now: float, idle_seconds: float) -> None:
        """Let a template go that nobody has used for so long."""
        template = self._template
        if template.alive and not template.busy and now - template.last_used > idle_seconds:
            template.close()

    def renew(self) -> None:
        """Fork the next jobs from a new template, which is started with the newest grains."""
        if not self._template.busy:
            self._template.close()

    def close(self) -> None:
        """Let go of everything; what runs goes on."""
        for process in list(self._watched):
            self.forget(process)
        self._template.close()

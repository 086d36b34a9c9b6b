"""The daemon's connection to its template: started at the first job, stopped when idle."""

from __future__ import annotations

import json
import os
import socket
from typing import Dict, List, Optional, Protocol, Tuple

from catena.minion.loop import Loop
from catena.minion.start import blob
from catena.minion.start.blob import StartData
from catena.minion.start.interpreter import python_argv

_MESSAGE_BYTES = 4096


class Forked(Protocol):
    """Notified of forks."""

    def forked(
        self, jid: str, pid: int, start: Optional[int], module: str, line: socket.socket
    ) -> None:
        """Process the start of a job's process at *start* (ticks since boot); None: it has ended.

        *line* is the daemon's end of the socket pair to it.
        """

    def unforked(self, jids: List[str]) -> None:
        """Process the end of the template; it is unknown whether these jobs have processes."""


class TemplateLink:
    """At most one template process.

    Args:
        loop: watches the template's answers.
        listener: notified of forks.
    """

    def __init__(self, loop: Loop, listener: Forked) -> None:
        self._loop = loop
        self._listener = listener
        self._pair: Optional[socket.socket] = None
        #: pid of the running template, and below those that were stopped but not reaped.
        self._pid = 0
        self._left: List[int] = []
        #: jid -> module of the job's function, and the socket to its future process.
        self._asked: Dict[str, Tuple[str, socket.socket]] = {}
        self.last_used = 0.0

    @property
    def alive(self) -> bool:
        """Return whether there is a template."""
        return self._pair is not None

    @property
    def busy(self) -> bool:
        """Return whether there are requested jobs that have not been forked."""
        return bool(self._asked)

    def fork(self, jid: str, module: str, start: StartData, now: float) -> None:
        """Request a process for job *jid* of a function of *module*; the listener gets the answer.

        Raises:
            OSError: no process could be created.
        """
        if self._pair is None:
            self._start(start)
        assert self._pair is not None
        self.last_used = now
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asked[jid] = (module, mine)
        order = json.dumps({"jid": jid, "module": module}).encode("ascii")
        try:
            socket.send_fds(self._pair, [order], [its.fileno()])
        except OSError:
            self._gone()
        finally:
            its.close()

    def close(self) -> None:
        """Stop the template; processes that it forked continue."""
        if self._pair is not None:
            self._loop.forget(self._pair.fileno())
            self._pair.close()
            self._pair = None
            for _, line in self._asked.values():
                line.close()
            self._asked.clear()
            self._left.append(self._pid)

    def reap(self) -> None:
        """Reap templates that have ended."""
        for pid in list(self._left):
            try:
                done, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                done = pid
            if done:
                self._left.remove(pid)

    def _start(self, start: StartData) -> None:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handle = blob.write(start)
        its.set_inheritable(True)
        argv = python_argv("catena.minion.worker.template", str(handle), str(its.fileno()))
        try:
            # The template gets the daemon's current environment, and default signal handlers.
            self._pid = os.posix_spawn(argv[0], argv, dict(os.environ), setsid=True, setsigmask=[])
        finally:
            its.close()
            os.close(handle)
        self._pair = mine
        self._loop.watch(mine.fileno(), self._read)

    def _read(self, mask: int) -> None:
        assert self._pair is not None
        try:
            message = self._pair.recv(_MESSAGE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._gone()
            return
        answer = json.loads(message)
        asked = self._asked.pop(answer["jid"], None)
        if asked is not None:
            self._listener.forked(answer["jid"], answer["pid"], answer["start"], *asked)

    def _gone(self) -> None:
        lost = list(self._asked)
        self.close()
        self._listener.unforked(lost)

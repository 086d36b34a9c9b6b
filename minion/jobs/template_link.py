"""The daemon's end of its template: made at the first job, asked to fork, let go when idle."""

from __future__ import annotations

import json
import os
import socket
from typing import Dict, List, Optional, Protocol, Tuple

from catena.minion.loop import Loop
from catena.minion.start import blob
from catena.minion.start.blob import Start
from catena.minion.start.interpreter import python_argv

_MESSAGE_BYTES = 4096


class Forked(Protocol):
    """Who is told of forks."""

    def forked(
        self, jid: str, pid: int, start: Optional[int], module: str, line: socket.socket
    ) -> None:
        """A job's process has begun at *start* (ticks since boot); None: it has ended already.

        *line* leads to it.
        """

    def unforked(self, jids: List[str]) -> None:
        """The template is gone, and with it what is known of the processes of these jobs."""


class TemplateLink:
    """At most one template process.

    Args:
        loop: where the answers are read.
        listener: told of forks.
    """

    def __init__(self, loop: Loop, listener: Forked) -> None:
        self._loop = loop
        self._listener = listener
        self._pair: Optional[socket.socket] = None
        #: Of the template that is there, and of those that were let go and have not been reaped.
        self._pid = 0
        self._left: List[int] = []
        #: By jid: the module of the job's function, and the line to its process to be.
        self._asked: Dict[str, Tuple[str, socket.socket]] = {}
        self.last_used = 0.0

    @property
    def alive(self) -> bool:
        """Whether there is a template."""
        return self._pair is not None

    @property
    def busy(self) -> bool:
        """Whether jobs were asked for and not forked yet."""
        return bool(self._asked)

    def fork(self, jid: str, module: str, start: Start, now: float) -> None:
        """Have job *jid* of a function of *module* forked; the answer comes to the listener.

        Raises:
            OSError: no process could be made.
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
        """Let the template go; what it forked stays."""
        if self._pair is not None:
            self._loop.forget(self._pair.fileno())
            self._pair.close()
            self._pair = None
            for _, line in self._asked.values():
                line.close()
            self._asked.clear()
            self._left.append(self._pid)

    def reap(self) -> None:
        """Collect templates that have ended, so that no zombie stays."""
        for pid in list(self._left):
            try:
                done, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                done = pid
            if done:
                self._left.remove(pid)

    def _start(self, start: Start) -> None:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handle = blob.write(start)
        its.set_inheritable(True)
        argv = python_argv("catena.minion.worker.template", str(handle), str(its.fileno()))
        try:
            # Its environment is the daemon's as it is now; its signals are all at their defaults.
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

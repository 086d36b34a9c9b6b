"""The daemon's end of its template: made at the first job, asked to fork, let go when idle."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Dict, List, Optional

from catena.minion.loop import Loop
from catena.minion.start import blob
from catena.minion.start.blob import Start
from catena.minion.start.interpreter import python_argv

if TYPE_CHECKING:
    from catena.minion.jobs.runner import ForkListener

_MESSAGE_BYTES = 4096
#: No module of ours has a longer name; a stranger's must fit a message all the same.
_NAME_LENGTH = 64


class TemplateLink:
    """At most one template process.

    Args:
        loop: where the answers are read.
        listener: told of forks.
    """

    def __init__(self, loop: Loop, listener: ForkListener) -> None:
        self._loop = loop
        self._listener = listener
        self._pair: Optional[socket.socket] = None
        #: Of the template that is there, and of those that were let go and have not been reaped.
        self._pid = 0
        self._left: List[int] = []
        self._asked: List[str] = []
        #: Processes that wait for another job, by the module of those they had. A job is given to
        #: one only after its last job was taken from the books: to kill that would kill this.
        self._free: Dict[str, List[int]] = {}
        self.last_used = 0.0

    @property
    def alive(self) -> bool:
        """Whether there is a template."""
        return self._pair is not None

    @property
    def busy(self) -> bool:
        """Whether jobs were asked for and not forked yet."""
        return bool(self._asked)

    def fork(self, jid: str, fun: str, start: Start, now: float) -> None:
        """Have job *jid*, which calls *fun*, forked; the answer comes to the listener.

        Raises:
            OSError: no process could be made.
        """
        if self._pair is None:
            self._start(start)
        assert self._pair is not None
        self.last_used = now
        self._asked.append(jid)
        try:
            module = fun.partition(".")[0][:_NAME_LENGTH]
            free = self._free.get(module)
            order = {"jid": jid, "module": module, "to": free.pop() if free else 0}
            self._pair.send(json.dumps(order).encode("ascii"))
        except OSError:
            self._gone()

    def close(self) -> None:
        """Let the template go; what it forked stays."""
        if self._pair is not None:
            self._loop.forget(self._pair.fileno())
            self._pair.close()
            self._pair = None
            self._free.clear()
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
        if "free" in answer:
            self._free.setdefault(answer["module"], []).append(answer["pid"])
            self._listener.finished(answer["free"])
        elif answer["jid"] in self._asked:
            self._asked.remove(answer["jid"])
            self._listener.forked(answer["jid"], answer["pid"], answer["start"])

    def _gone(self) -> None:
        self.close()
        lost, self._asked = self._asked, []
        self._listener.unforked(lost)

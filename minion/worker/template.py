"""The warm process that jobs are forked from: everything imported, nothing open, one thread.

Made by an exec of the daemon at the first job, so that it never owns a ZeroMQ socket. It ends when
the daemon closes the pair of sockets between them; jobs that it forked go on. A fork that may have
another job (`worker`) is kept for some seconds, and given one when the daemon says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any, Dict, Mapping, Optional

from catena.core import failpoints
from catena.core.frozen import dataclass
from catena.minion.jobs.processes import start_ticks
from catena.minion.start import blob
from catena.minion.start.blob import Start
from catena.minion.worker import warm
from catena.minion.worker.process import exit_after, run

#: How long a fork waits for another job. It is as large as the template.
REST_SECONDS = 2.0
_MESSAGE_BYTES = 4096


@dataclass
class _Fork:
    """A process that was forked and lives."""

    pid: int
    #: When it began, ticks since boot; None: it had ended before that was looked at.
    start: Optional[int]
    line: socket.socket
    module: str
    #: What it works on; "" when it waits.
    jid: str
    #: Since when it waits, monotonic.
    since: float = 0.0


class Template:
    """Forks jobs on the daemon's word.

    Args:
        start: what each job is told.
        pair: to the daemon.
    """

    def __init__(self, start: Start, pair: socket.socket) -> None:
        self._start, self._pair = start, pair
        self._poll = select.poll()
        self._poll.register(pair, select.POLLIN)
        #: By the descriptor of its line.
        self._forks: Dict[int, _Fork] = {}

    def serve(self) -> None:
        """Work until the daemon hangs up."""
        while True:
            for handle, _ in self._poll.poll(self._wait_ms()):
                if handle != self._pair.fileno():
                    self._hear(self._forks[handle])
                elif not self._obey():
                    return
            self._let_go()

    def _obey(self) -> bool:
        """Follow one order of the daemon; False when it hung up."""
        message = self._pair.recv(_MESSAGE_BYTES)
        if not message:
            return False
        order = json.loads(message)
        fork = self._given(order) or self._forked(order)
        self._say({"jid": fork.jid, "pid": fork.pid, "start": fork.start})
        return True

    def _given(self, order: Mapping[str, Any]) -> Optional[_Fork]:
        """Give a job to the fork that the daemon names; None when it has gone meanwhile."""
        for fork in self._forks.values():
            if fork.pid != order["to"] or fork.jid:
                continue
            try:
                fork.line.send(order["jid"].encode("ascii"))
            except OSError:
                return None
            fork.jid = order["jid"]
            return fork
        return None

    def _forked(self, order: Mapping[str, Any]) -> _Fork:
        warm.bring(order["module"])
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            self._pair.close()
            mine.close()
            for other in self._forks.values():
                other.line.close()
            exit_after(lambda: run(self._start, order["jid"], its))
        its.close()
        fork = _Fork(pid, start_ticks(pid), mine, order["module"], order["jid"])
        self._forks[mine.fileno()] = fork
        self._poll.register(mine, select.POLLIN)
        return fork

    def _hear(self, fork: _Fork) -> None:
        """A fork is free, or has ended."""
        try:
            said = fork.line.recv(_MESSAGE_BYTES)
        except OSError:
            said = b""
        if not said:
            self._forget(fork)
            return
        self._say({"free": fork.jid, "pid": fork.pid, "module": fork.module})
        fork.jid, fork.since = "", time.monotonic()

    def _let_go(self) -> None:
        """Let forks end that nobody gave a job for long."""
        until = time.monotonic() - REST_SECONDS
        for fork in [fork for fork in self._forks.values() if not fork.jid]:
            if fork.since <= until:
                self._forget(fork)

    def _forget(self, fork: _Fork) -> None:
        self._poll.unregister(fork.line)
        del self._forks[fork.line.fileno()]
        fork.line.close()

    def _wait_ms(self) -> Optional[float]:
        waiting = [fork.since for fork in self._forks.values() if not fork.jid]
        if not waiting:
            return None
        return max(0.0, min(waiting) + REST_SECONDS - time.monotonic()) * 1000.0 + 1.0

    def _say(self, what: Mapping[str, Any]) -> None:
        self._pair.send(json.dumps(what).encode("ascii"))


def main() -> None:
    """Serve until the daemon hangs up. sys.argv: descriptor of the start record, of the socket."""
    start = blob.read(int(sys.argv[1]))
    failpoints.arm(start.settings.testing)
    pair = socket.socket(fileno=int(sys.argv[2]))
    # Forks are not waited for here: the kernel forgets them at once.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    warm.rehearse(start)
    # A daemon that was killed in the middle of an answer has hung up, too.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        Template(start, pair).serve()


if __name__ == "__main__":
    main()

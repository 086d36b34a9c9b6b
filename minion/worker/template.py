"""The warm process that jobs are forked from: everything imported, nothing open, one thread.

Made by an exec of the daemon at the first job, so that it never owns a ZeroMQ socket. It ends when
the daemon closes the pair of sockets between them; jobs that it forked go on. Each of them has a
line to the daemon, which comes with the order to fork it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from typing import Any, Mapping

from catena.core import failpoints
from catena.minion.jobs.processes import start_ticks
from catena.minion.start import blob
from catena.minion.start.blob import Start
from catena.minion.worker import warm
from catena.minion.worker.life import exit_after, run

_MESSAGE_BYTES = 4096


class Template:
    """Forks jobs on the daemon's word.

    Args:
        start: what each job is told.
        pair: to the daemon.
    """

    def __init__(self, start: Start, pair: socket.socket) -> None:
        self._start, self._pair = start, pair

    def serve(self) -> None:
        """Work until the daemon hangs up."""
        while True:
            message, lines, _, _ = socket.recv_fds(
                self._pair, _MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC
            )
            if not message:
                return
            order = json.loads(message)
            pid = self._forked(order, socket.socket(fileno=lines[0]))
            self._say({"jid": order["jid"], "pid": pid, "start": start_ticks(pid)})

    def _forked(self, order: Mapping[str, Any], line: socket.socket) -> int:
        """Return the pid of a new process for a job, which has *line* to the daemon."""
        warm.bring(order["module"])
        pid = os.fork()
        if pid == 0:
            self._pair.close()
            exit_after(lambda: run(self._start, order["jid"], line))
        line.close()
        return pid

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

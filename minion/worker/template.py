"""The warm process from which jobs are forked: everything imported, nothing open, one thread.

The daemon starts it by exec at the first job, so that it never has a ZeroMQ socket. It ends when
the daemon closes their socket pair; processes that it forked continue. Each of those has a socket
to the daemon, which arrives with the request to fork.
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
from catena.minion.start.blob import StartData
from catena.minion.worker import warm
from catena.minion.worker.life import exit_after, run

_MESSAGE_BYTES = 4096


class Template:
    """Forks job processes at the daemon's request.

    Args:
        start: the start record for each job.
        pair: socket to the daemon.
    """

    def __init__(self, start: StartData, pair: socket.socket) -> None:
        self._start, self._pair = start, pair

    def serve(self) -> None:
        """Serve requests until the daemon closes the socket."""
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
        """Fork a process for a job, with *line* as its socket to the daemon; return its pid."""
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
    """Serve until the daemon hangs up. sys.argv: descriptors of the start record and socket."""
    start = blob.read(int(sys.argv[1]))
    failpoints.arm(start.settings.testing)
    pair = socket.socket(fileno=int(sys.argv[2]))
    # Let the kernel reap the forked processes.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    warm.rehearse(start)
    # A daemon killed while the template answers has closed the socket, too.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        Template(start, pair).serve()


if __name__ == "__main__":
    main()

"""The warm process that jobs are forked from: everything imported, nothing open, one thread.

Made by an exec of the daemon at the first job, so that it never owns a ZeroMQ socket. It ends when
the daemon closes the pair of sockets between them; jobs that it forked go on.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

from catena.core import failpoints
from catena.minion import blob, warm
from catena.minion.processes import start_ticks
from catena.minion.worker import exit_after, run

_MESSAGE_BYTES = 4096


def main() -> None:
    """Serve until the daemon hangs up. sys.argv: descriptor of the start record, of the socket."""
    start = blob.read(int(sys.argv[1]))
    failpoints.arm(start.settings.testing)
    pair = socket.socket(fileno=int(sys.argv[2]))
    # Workers are not waited for here: the kernel forgets them at once.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    warm.rehearse(start)
    while True:
        message = pair.recv(_MESSAGE_BYTES)
        if not message:
            return
        order = json.loads(message)
        jid = order["jid"]
        warm.bring(order["module"])
        pid = os.fork()
        if pid == 0:
            pair.close()
            exit_after(lambda jid=jid: run(start, jid))  # type: ignore[misc]  # bound now
        pair.send(json.dumps({"jid": jid, "pid": pid, "start": start_ticks(pid)}).encode("ascii"))


if __name__ == "__main__":
    main()

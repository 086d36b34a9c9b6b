"""The warm process that jobs are forked from: everything imported, nothing open, one thread.

Made by an exec of the daemon at the first job, so that it never owns a ZeroMQ socket. It ends when
the daemon closes the pair of sockets between them; jobs that it forked go on.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from importlib import import_module

from catena.core import failpoints
from catena.minion import blob
from catena.minion.processes import start_ticks
from catena.minion.worker import exit_after, run

#: What nearly every job needs; imported once, shared by all workers.
WARM = (
    "catena.runtime.functions.mgractionchains",
    "catena.states.compiler.api",
    "catena.states.functions.state",
    "catena.renderers.pipeline",
    "catena.states.file",
    "catena.states.cmd",
    "catena.modules.cmd.functions",
    "catena.modules.file.functions",
    "catena.modules.test",
    "catena.runtime.functions.cp",
    "catena.runtime.functions.pillar",
    "catena.runtime.functions.saltutil",
    "ctypes",
    "difflib",
    "jinja2",
    "yaml",
)
_MESSAGE_BYTES = 4096


def main() -> None:
    """Serve until the daemon hangs up. sys.argv: descriptor of the start record, of the socket."""
    start = blob.read(int(sys.argv[1]))
    failpoints.arm(start.settings.testing)
    pair = socket.socket(fileno=int(sys.argv[2]))
    # Workers are not waited for here: the kernel forgets them at once.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for name in WARM:
        import_module(name)
    # Objects that exist now are never looked at by a worker's collector: their pages stay shared.
    gc.collect()
    gc.freeze()
    while True:
        message = pair.recv(_MESSAGE_BYTES)
        if not message:
            return
        jid = json.loads(message)["jid"]
        pid = os.fork()
        if pid == 0:
            pair.close()
            exit_after(lambda jid=jid: run(start, jid))  # type: ignore[misc]  # bound now
        pair.send(json.dumps({"jid": jid, "pid": pid, "start": start_ticks(pid)}).encode("ascii"))


if __name__ == "__main__":
    main()

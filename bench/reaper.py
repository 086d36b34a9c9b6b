"""Runs a command and waits for all that it leaves behind, so that its CPU seconds are known.

    python reaper.py COMMAND …

What sshd starts is let go of when a connection ends. This process adopts it: its own sum of the
CPU of ended children (/proc/PID/stat) is then that of everything.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

_PR_SET_CHILD_SUBREAPER = 36


def main(words: list[str]) -> int:
    """Run the command until it ends; return its code."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(words)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while True:
        with contextlib.suppress(InterruptedError):
            pid, status = os.wait()
            if pid == child.pid:
                return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

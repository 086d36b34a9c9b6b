"""Run a command and wait for all orphans that it leaves, to count their CPU seconds.

    python reaper.py COMMAND …

Children of sshd become orphans when a connection ends. This process adopts them as a subreaper, so
the CPU time of its ended children (/proc/PID/stat) includes everything.
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
    """Run the command to its end; return its exit code."""
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

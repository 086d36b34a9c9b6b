"""Process 1 of a bare host: starts the agent and reaps orphaned processes.

Run by `unshare --pid --fork --mount-proc`. reboot(2) in such a namespace makes the kernel end this
process by SIGHUP, and every other process of the host with it: no systemd, no container.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def main(config_dir: str, log_file: str) -> None:
    """Run until the kernel ends the host."""
    with Path(log_file).open("ab") as log:
        agent = subprocess.Popen(
            [sys.executable, "-m", "catena", "-c", config_dir, "minion"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    while True:
        pid, _ = os.wait()
        if pid == agent.pid:
            sys.exit("the agent has ended")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

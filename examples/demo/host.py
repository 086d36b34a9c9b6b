"""A simulated host: a minion with its own folders, identity and boot id, as a process tree.

The machine is simulated: its processes have a mark in their environment; a "reboot" ends all of
them, writes a new boot id and starts the minion again. The minion itself is the real daemon, and
this file is its `reboot_command`.

    python host.py start FOLDER
    python host.py agent FOLDER
    python host.py reboot FOLDER
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

#: Environment variable that marks every process of one host; its value is the host's folder.
MARK = "CATENA_DEMO_HOST"
#: File that exists during a reboot of the host.
REBOOTING = "rebooting"
#: Seconds between SIGTERM and SIGKILL when the host shuts down.
GRACE_SECONDS = 5.0


def processes(folder: Path) -> Iterator[int]:
    """Yield the pids of all processes with the mark of the host in *folder*."""
    wanted = f"{MARK}={folder}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def power_off(folder: Path) -> None:
    """End every process of the host, as in a shutdown."""
    deadline = time.monotonic() + GRACE_SECONDS
    sign = signal.SIGTERM
    while pids := list(processes(folder)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
        if time.monotonic() > deadline:
            sign = signal.SIGKILL
        time.sleep(0.02)


def power_on(folder: Path) -> None:
    """Give the host a new boot id and start its minion."""
    (folder / "boot_id").write_text(f"{uuid.uuid4()}\n", encoding="ascii")
    start_agent(folder)


def start_agent(folder: Path) -> None:
    """Start the host's minion without a new boot id."""
    with (folder / "minion.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "catena", "-c", str(folder / "etc/catena"), "minion"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, MARK: str(folder)},
            start_new_session=True,
        )


def reboot(folder: Path) -> None:
    """Reboot the host, in a process that does not belong to it."""
    (folder / REBOOTING).touch()
    environment = {key: value for key, value in os.environ.items() if key != MARK}
    subprocess.Popen(
        [sys.executable, __file__, "cycle", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=environment,
        start_new_session=True,
    )


def main(verb: str, folder: Path) -> None:
    """Apply *verb* to the host in *folder*."""
    if verb == "start":
        power_on(folder)
    elif verb == "agent":
        start_agent(folder)
    elif verb == "reboot":
        reboot(folder)
    elif verb == "cycle":
        power_off(folder)
        power_on(folder)
        (folder / REBOOTING).unlink(missing_ok=True)
    else:
        sys.exit(f"unknown verb {verb}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

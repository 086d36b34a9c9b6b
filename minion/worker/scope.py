"""A systemd scope for a job process, so that stopping the agent does not stop the job.

It is requested through busctl (systemd.scope(5)), which needs neither a D-Bus library nor a
wrapper around the forked process. Without systemd, a job process only has a session of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import List

#: Exists if and only if systemd is the init (sd_booted(3)).
BOOTED = "/run/systemd/system"
_SECONDS = 10


def scope_name(jid: str) -> str:
    """Return the name of a job's scope."""
    return f"catena-job-{jid}.scope"


def start_argv(busctl: str, name: str, pid: int, tasks_max: int = 0) -> List[str]:
    """Return the argv that moves *pid* into a new scope *name*.

    The scope has Delegate=no and no limit but *tasks_max* (0: systemd's): a job may use the host's
    resources like a command in a shell.
    """
    head = "org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
    properties = [
        *("Description", "s", "a job of the catena agent"),
        *("PIDs", "au", "1", str(pid)),
        *("CollectMode", "s", "inactive-or-failed"),
        *(("TasksMax", "t", str(tasks_max)) if tasks_max else ()),
    ]
    count = str(4 if tasks_max else 3)
    return [
        *(busctl, "--quiet", "call", *head.split(), "StartTransientUnit", "ssa(sv)a(sa(sv))"),
        *(name, "fail", count, *properties, "0"),
    ]


def is_there() -> bool:
    """Return whether systemd runs."""
    return os.path.isdir(BOOTED)  # noqa: PTH112  # one stat, no Path needed


def enter(jid: str, tasks_max: int = 0) -> str:
    """Move this process into a scope of its own; return the scope's name, or "" on failure.

    Args:
        jid: of the job.
        tasks_max: maximum number of its processes and threads; 0: systemd's default.
    """
    if not is_there():
        return ""
    busctl = shutil.which("busctl")
    if busctl is None:
        return ""
    name = scope_name(jid)
    argv = start_argv(busctl, name, os.getpid(), tasks_max)
    try:
        done = subprocess.run(argv, timeout=_SECONDS, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return name if done.returncode == 0 and _arrived(name) else ""


def _arrived(name: str) -> bool:
    """Wait until systemd has moved this process; a child started earlier would stay outside.

    busctl returns as soon as the move is queued.
    """
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        with open("/proc/self/cgroup", encoding="ascii") as stream:  # noqa: PTH123  # no Path
            if f"/{name}" in stream.read():
                return True
        time.sleep(0.001)
    return False

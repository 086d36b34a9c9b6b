"""CPU time of all processes of a fixture, including unreaped ones, from a control group.

/proc/PID/stat includes the children for which a process has waited. A process that ignores
SIGCHLD, as the template of an agent's jobs, never gets their time. A control group of version 2
counts all processes that were ever in it (cpu.stat).
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from pathlib import Path

#: Mount points of control groups version 2: alone, or together with version 1.
_PLACES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_USAGE = re.compile(r"^usage_usec (\d+)$", re.MULTILINE)


class Account:
    """The control group of one mark; groups are nested like marks.

    Args:
        mark: a path, absolute or not, which need not exist.
    """

    def __init__(self, mark: str) -> None:
        top = own_top()
        self._folder = top and top.joinpath(*(part for part in Path(mark).parts if part != os.sep))

    def take(self, pid: int) -> None:
        """Count *pid* and its future children; do nothing if this user may not create groups."""
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def seconds(self) -> float | None:
        """Return the CPU seconds of all that are or were in it; None: it has no group."""
        if self._folder is None or not self._folder.is_dir():
            return None
        found = _USAGE.search((self._folder / "cpu.stat").read_text(encoding="ascii"))
        return int(found[1]) / 1e6 if found else None

    def close(self) -> None:
        """Remove the group, the groups in it, and empty parents.

        The group must contain no process.
        """
        top, folder = own_top(), self._folder
        if top is None or folder is None:
            return
        inner = sorted((Path(path) for path, _, _ in os.walk(folder)), reverse=True)
        for group in [*inner, *folder.parents]:
            if group == top.parent or (group.is_dir() and not self._removed(group)):
                return

    def _removed(self, folder: Path) -> bool:
        """Return whether a group is gone; a process leaves its own a moment after its memory."""
        for _ in range(20):
            if any(path.is_dir() for path in folder.iterdir()):
                return False
            with contextlib.suppress(OSError):
                folder.rmdir()
                return True
            time.sleep(0.01)
        return False


@functools.cache
def own_top() -> Path | None:
    """Return the folder for all groups of this process; None: this user may make none."""
    for place in _PLACES:
        if not (place / "cgroup.procs").exists():
            continue
        own = re.search(r"^0::(/.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
        if own is None:
            return None
        top = place / own[1].lstrip("/") / f"catena-bench-{os.getpid()}"
        with contextlib.suppress(OSError):
            top.mkdir()
            (top / "cpu.stat").read_text(encoding="ascii")
            top.rmdir()  # only created to test the permission
            return top
    return None

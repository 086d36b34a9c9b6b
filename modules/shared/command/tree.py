"""Find process trees in /proc and end them.

A signal to the process group of a command misses children in other groups and sessions. The
process tree together with the session contains all of them, except daemons that left both.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Set

#: Seconds between SIGTERM and SIGKILL.
GRACE_SECONDS = 2.0
_POLL_SECONDS = 0.02
_ROUNDS = 50


class _Stat(NamedTuple):
    state: str
    parent: int
    session: int


def _processes() -> Dict[int, _Stat]:
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it ended while we looked
        fields = text[text.rfind(")") + 2 :].split()
        found[int(folder.name)] = _Stat(fields[0], int(fields[1]), int(fields[3]))
    return found


def members(root: int) -> List[int]:
    """Return *root*, its descendants and every process of its session; without zombies."""
    processes = _processes()
    chosen: Set[int] = {root}
    grown = True
    while grown:
        more = {
            pid
            for pid, stat in processes.items()
            if pid not in chosen and (stat.parent in chosen or stat.session == root)
        }
        chosen |= more
        grown = bool(more)
    return sorted(pid for pid in chosen if pid in processes and processes[pid].state != "Z")


def _signal(pids: List[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def end(root: int, grace: float = GRACE_SECONDS) -> bool:
    """End *root*, the leader of its own session, and all its descendants.

    Send SIGTERM first. After *grace* seconds send SIGKILL to the remaining processes, repeatedly,
    because a tree may grow while it is being ended.

    Returns:
        Whether all processes have ended.
    """
    _signal(members(root), signal.SIGTERM)
    limit = time.monotonic() + grace
    while time.monotonic() < limit:
        if not members(root):
            return True
        time.sleep(_POLL_SECONDS)
    for _ in range(_ROUNDS):
        left = members(root)
        if not left:
            return True
        _signal(left, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    return not members(root)


def kill(root: int) -> None:
    """Kill *root* and all its descendants with SIGKILL.

    The processes are stopped first, from the root. Otherwise a process could fork during the kill,
    and children of killed processes could no longer be found.
    """
    stopped: Set[int] = set()
    for _ in range(_ROUNDS):
        fresh = [pid for pid in members(root) if pid not in stopped]
        if not fresh:
            break
        _signal(fresh, signal.SIGSTOP)
        stopped.update(fresh)
    _signal(sorted(stopped), signal.SIGKILL)

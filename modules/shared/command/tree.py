"""Process trees, read from /proc: who descends from whom, and ending all of them.

A command may put its children into groups and sessions of their own, so that a signal to its
process group does not reach them; the tree and the session together do, short of a daemon that
detached itself from both.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Set

#: How long a tree is given to end by itself after SIGTERM.
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
    """End *root*, the leader of its own session, and everything below it.

    SIGTERM first, SIGKILL to what is left after *grace* seconds, again until nothing is left
    (a tree may grow while it is being ended).

    Returns:
        Whether the tree is gone.
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
    """Kill *root* and everything below it, without asking.

    The tree is stopped first, from the top: what forks while it is being killed would get away,
    and what lost its parent is no longer found.
    """
    stopped: Set[int] = set()
    for _ in range(_ROUNDS):
        fresh = [pid for pid in members(root) if pid not in stopped]
        if not fresh:
            break
        _signal(fresh, signal.SIGSTOP)
        stopped.update(fresh)
    _signal(sorted(stopped), signal.SIGKILL)

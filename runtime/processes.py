"""Processes identified by pid and start time, and kills of whole process trees.

A pid alone is never trusted, because another process may reuse it. Together with the start time
(in ticks since boot) and the boot id it identifies a process permanently. This also works for
processes that are not children of this one, as after a restart of the daemon.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Dict, List, Optional, Set

from catena.core.frozen import dataclass

#: Maximum number of rounds to stop a tree that keeps forking.
_ROUNDS = 50
#: prctl(2): makes this process adopt orphaned descendants, so that the whole tree can be killed.
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class ProcessRef:
    """One process of one boot."""

    pid: int
    #: Field 22 of /proc/<pid>/stat: ticks since boot.
    start: int
    boot_id: str

    def __hash__(self) -> int:
        # Computed cheaply, because it is used several times per job.
        return hash(self.pid)


def become_subreaper() -> None:
    """Adopt orphaned descendants from now on."""
    # Imported here: the daemon only watches processes and does not need it.
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def has_children() -> bool:
    """Return whether a child that this process has started or adopted is running."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not pid:
            return True


def start_ticks(pid: int) -> Optional[int]:
    """Return the start time of *pid* in ticks since boot; None if it is gone or a zombie."""
    fields = _stat(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def reference(pid: int, boot_id: str) -> Optional[ProcessRef]:
    """Return the permanent identity of a running process."""
    start = start_ticks(pid)
    return None if start is None else ProcessRef(pid, start, boot_id)


def is_alive(ref: ProcessRef, boot_id: str) -> bool:
    """Return whether this very process still runs (a zombie does not)."""
    return ref.boot_id == boot_id and start_ticks(ref.pid) == ref.start


def open_pidfd(ref: ProcessRef, boot_id: str) -> int:
    """Return a descriptor that becomes readable when the process ends; -1 if there is none.

    -1 means "poll with is_alive": the process is gone, or the kernel is older than 5.3.
    """
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return -1
    try:
        handle: int = opener(ref.pid)
    except OSError:
        return -1
    # Check after opening the descriptor: from now on the pid cannot be reused unnoticed.
    if not is_alive(ref, boot_id):
        os.close(handle)
        return -1
    return handle


def send_signal(ref: ProcessRef, boot_id: str, number: int) -> bool:
    """Send a signal to this very process; return False if it is gone."""
    if not is_alive(ref, boot_id):
        return False
    try:
        os.kill(ref.pid, number)
    except ProcessLookupError:
        return False
    return True


def descendants(pid: int) -> Set[int]:
    """Return all processes below *pid*, without itself.

    Double-forked children are found as long as *pid* is their subreaper (prctl(2)), which a worker
    makes itself.
    """
    children: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # names only; a Path per process is waste
        if name.isdigit():
            fields = _stat(int(name))
            if fields is not None:
                children.setdefault(int(fields[1]), []).append(int(name))
    found: Set[int] = set()
    left = [pid]
    while left:
        for child in children.get(left.pop(), ()):
            if child not in found:
                found.add(child)
                left.append(child)
    return found


def kill_tree(ref: ProcessRef, boot_id: str, scope: str = "") -> bool:
    """Kill a process with its descendants; return whether it was still running.

    The tree is first stopped from the top until no new process appears. Otherwise a process that
    forks while it is being killed (a fork bomb) would escape.

    Args:
        ref: root of the tree.
        boot_id: id of the running boot.
        scope: name of its systemd scope; all processes in that scope are killed, too.
    """
    there = is_alive(ref, boot_id)
    stopped: Set[int] = set()
    if there:
        _signal_all({ref.pid}, signal.SIGSTOP)
        for _ in range(_ROUNDS):
            fresh = descendants(ref.pid) - stopped
            if not fresh:
                break
            _signal_all(fresh, signal.SIGSTOP)
            stopped |= fresh
        _signal_all({*stopped, ref.pid}, signal.SIGKILL)
    _signal_all(scope_processes(scope), signal.SIGKILL)
    return there


def signal_tree(ref: ProcessRef, boot_id: str, number: int) -> int:
    """Send a signal to a process and its descendants; return their number."""
    if not is_alive(ref, boot_id):
        return 0
    pids = descendants(ref.pid) | {ref.pid}
    _signal_all(pids, number)
    return len(pids)


def scope_processes(scope: str) -> Set[int]:
    """Return the processes in a systemd scope of the system slice; none without systemd."""
    found: Set[int] = set()
    if not scope:
        return found
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd"):
        try:
            text = (Path(root) / "system.slice" / scope / "cgroup.procs").read_text("ascii")
        except OSError:
            continue
        found |= {int(line) for line in text.split()}
    return found - {os.getpid()}


def _signal_all(pids: Set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _stat(pid: int) -> Optional[List[str]]:
    """Return the fields of /proc/<pid>/stat from the third one on (state, ppid, …)."""
    try:
        handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(handle, 4096)
    except OSError:
        return None
    finally:
        os.close(handle)
    # The second field, the name, may contain spaces and parentheses; it ends at the last ")".
    return text[text.rindex(b")") + 2 :].decode("ascii").split()

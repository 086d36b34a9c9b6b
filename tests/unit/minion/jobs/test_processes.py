from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from catena.minion.jobs import processes
from catena.minion.jobs.processes import ProcessRef
from catena.minion.worker import scope
from tests.support.waiting import process_ends

BOOT = "boot-1"

#: Forks children with sessions of their own that ignore TERM, write their pids and sleep.
TREE = """
import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
for deep in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(int(sys.argv[1]), b"%d\\n" % os.getpid())
        time.sleep(60)
time.sleep(60)
"""


@pytest.fixture
def tree() -> Callable[[], tuple[subprocess.Popen[bytes], list[int]]]:
    def make() -> tuple[subprocess.Popen[bytes], list[int]]:
        pids, end = os.pipe()
        process = subprocess.Popen([sys.executable, "-c", TREE, str(end)], pass_fds=[end])
        os.close(end)
        with os.fdopen(pids) as lines:
            return process, [int(lines.readline()) for _ in range(3)]

    return make


def here() -> ProcessRef:
    found = processes.reference(os.getpid(), BOOT)
    assert found is not None
    return found


def test_process_is_itself_only_with_its_start_and_boot() -> None:
    me = here()
    assert processes.is_alive(me, BOOT)
    assert not processes.is_alive(replace(me, start=me.start + 1), BOOT)
    assert not processes.is_alive(me, "boot-2")


def test_reused_pid_is_neither_signalled_nor_killed() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        wrong = ProcessRef(child.pid, 1, BOOT)
        assert not processes.send_signal(wrong, BOOT, signal.SIGKILL)
        assert not processes.kill_tree(wrong, BOOT)
        assert processes.signal_tree(wrong, BOOT, signal.SIGKILL) == 0
        assert processes.open_pidfd(wrong, BOOT) == -1
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    ref = processes.reference(child.pid, BOOT)
    assert ref is not None and processes.is_alive(ref, BOOT)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(ref, BOOT)
    child.wait()


def test_killed_process_tree_includes_processes_that_left_its_session(
    tree: Callable[[], tuple[subprocess.Popen[bytes], list[int]]],
) -> None:
    top, below = tree()
    ref = processes.reference(top.pid, BOOT)
    assert ref is not None
    assert set(below) <= processes.descendants(top.pid)
    assert processes.kill_tree(ref, BOOT)
    top.wait(60)
    assert all(process_ends(pid) for pid in below)


def test_name_with_parentheses_does_not_confuse_the_reader(tmp_path: Path) -> None:
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(odd), "60"])
    try:
        assert processes.start_ticks(child.pid) is not None
        assert child.pid in processes.descendants(os.getpid())
    finally:
        child.kill()
        child.wait()


def test_scope_is_asked_of_systemd_without_a_shell() -> None:
    argv = scope.start_argv("/bin/busctl", "catena-job-1.scope", 42)
    assert argv[:3] == ["/bin/busctl", "--quiet", "call"]
    assert argv[7:11] == ["ssa(sv)a(sa(sv))", "catena-job-1.scope", "fail", "3"]
    assert argv[argv.index("PIDs") :][:4] == ["PIDs", "au", "1", "42"]
    assert argv[-1] == "0"


def test_there_is_no_scope_without_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "BOOTED", str(tmp_path / "none"))
    assert scope.enter("20260101000000000001") == ""
    assert processes.scope_processes("") == set()

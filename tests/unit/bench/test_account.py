from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.account import Account, own_top
from bench.measure import Tree
from bench.surroundings import environment

#: Its child works for 0.1 s of CPU, and nobody waits for that child.
PARENT = """
import os, signal, sys, time
sys.stdin.readline()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if not os.fork():
    while time.process_time() < 0.1:
        pass
    print("done", flush=True)
    os._exit(0)
signal.pause()
"""


@pytest.mark.skipif(own_top() is None, reason="this user may make no control groups")
def test_unreaped_child_is_counted(tmp_path: Path) -> None:
    member = tmp_path / "member"
    child = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        env=environment(str(member)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None and child.stdout is not None
    whole, tree = Tree(str(tmp_path)), Tree(str(member))
    tree.take(child.pid)
    child.stdin.write(b"\n")
    child.stdin.close()
    assert child.stdout.readline() == b"done\n"
    child.stdout.close()
    part = tree.cpu()  # before the whole, which it may go on to add to
    assert whole.cpu() >= part >= 0.09
    assert tree.exact_cpu() >= 0.09
    whole.end()
    child.wait()
    top = own_top()
    assert top is not None and not top.exists()
    assert Account(str(tmp_path)).seconds() is None


def test_cpu_is_summed_over_processes_without_a_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.account.own_top", lambda: None)
    tree = Tree(str(tmp_path))
    tree.take(1)  # nobody is moved
    assert Account(str(tmp_path)).seconds() is None
    assert tree.cpu() == 0 and tree.exact_cpu() == 0
    tree.end()

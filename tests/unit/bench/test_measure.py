"""Readings of processes and their trees from the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.measure import (
    MARK,
    Stat,
    Tree,
    all_stats,
    is_marked,
    parse_stat,
    run,
    sum_of,
    ticks_of,
    tree_of,
)
from bench.surroundings import environment, service_environment

STATS = [
    Stat(1, 0, 100, 0),
    Stat(10, 1, 5, 7),
    Stat(11, 10, 3, 0),
    Stat(12, 11, 2, 1),
    Stat(20, 1, 50, 50),
]


def test_stat_is_read_for_any_process_name() -> None:
    words = ["S", "7", *["0"] * 9, "11", "2", "30", "4", *["0"] * 10]
    assert parse_stat(f"42 (a) b (c)) {' '.join(words)}\n") == Stat(42, 7, 13, 34)


def test_our_own_stat_is_read() -> None:
    mine = [stat for stat in all_stats() if stat.pid == os.getpid()]
    assert [stat.parent for stat in mine] == [os.getppid()]


def test_tree_is_the_roots_and_all_below() -> None:
    assert tree_of([10], STATS) == {10, 11, 12}
    assert tree_of([11, 12], STATS) == {11, 12}
    assert tree_of([99], STATS) == set()


def test_cpu_of_a_tree_counts_the_living_and_those_they_waited_for_once() -> None:
    assert ticks_of({10, 11, 12}, STATS) == (5 + 7) + 3 + (2 + 1)
    assert ticks_of(set(), STATS) == 0


def test_memory_is_the_sum_of_the_lines_that_are_asked_for() -> None:
    rollup = "55d-7ff ---p 0 00:00 0 [rollup]\nRss:  90 kB\nPss:   50 kB\nPss_Dirty: 7 kB\n"
    rollup += "Private_Clean:  10 kB\nPrivate_Dirty:  20 kB\n"
    assert sum_of(rollup, ["Pss"]) == 50
    assert sum_of(rollup, ["Private_Clean", "Private_Dirty"]) == 30
    assert sum_of("", ["Pss"]) == 0


def test_command_is_measured_with_its_children() -> None:
    burn = "n = 0\nwhile __import__('time').process_time() < 0.1: n += 1"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    ran = run([sys.executable, "-c", code], environment())
    assert ran.cpu >= 0.05 and ran.wall > 0 and ran.code == 0


def test_command_that_fails_or_hangs_is_an_error() -> None:
    with pytest.raises(BenchError, match="ended with 3: wrong"):
        run([sys.executable, "-c", "import sys; print('wrong', file=sys.stderr); sys.exit(3)"])
    with pytest.raises(BenchError, match=r"took over 0 s"):
        run([sys.executable, "-c", "import signal; signal.pause()"], patience=0.1)
    assert run([sys.executable, "-c", "raise SystemExit(3)"], check=False).code == 3


def test_mark_is_a_path() -> None:
    environ = f"A=1\0{MARK}=/tmp/x/m1\0B=2\0".encode()
    assert is_marked(environ, "/tmp/x/m1") and is_marked(environ, "/tmp/x")
    assert not is_marked(environ, "/tmp/x/m") and not is_marked(environ, "/tmp/x/m1/y")
    assert not is_marked(b"", "/tmp/x")


def test_tree_is_found_by_its_mark_and_ended(tmp_path: Path) -> None:
    # The grandchild has lost the mark, as a job with an environment of its own has.
    code = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', "
        "'print(1, flush=True); __import__(\"signal\").pause()'], env={}); child.wait()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(str(tmp_path)),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"1\n"
    tree = Tree(str(tmp_path))
    pids = tree.pids()
    assert child.pid in pids and len(pids) == 2
    assert tree.pss() > 1 and tree.cpu() >= 0 and tree.exact_cpu() >= 0
    tree.end()
    child.wait()
    child.stdout.close()
    assert not tree.pids()


def test_mark_is_not_inherited_from_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(MARK, "outer")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert MARK not in environment() and "PYTHONPATH" not in environment()
    assert environment("inner")[MARK] == "inner"


def test_daemon_gets_the_environment_of_a_service_and_not_of_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SHELL", "HOME", "TERM", "LC_ALL"):
        monkeypatch.setenv(name, "/callers")
    assert set(service_environment("inner")) == {"PATH", "LANG", MARK}

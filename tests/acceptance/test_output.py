"""`catena job watch` and `chain watch` show the output of running commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fleet import Fleet


def test_job_watch_shows_lines_while_the_command_runs(fleet: Fleet, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    script = f"echo first; echo second >&2; while [ ! -e {gate} ]; do sleep 0.1; done; echo last"
    jid = fleet.catena("run", "--async", "web1", "cmd.run", script).stdout.strip()
    watch = subprocess.Popen(
        [sys.executable, "-m", "catena", "-c", str(fleet.config), "job", "watch", jid],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert watch.stderr is not None
        assert watch.stderr.readline() == "web1: first\n"
        assert watch.stderr.readline() == "web1: second\n"
        assert watch.poll() is None
        gate.touch()
        printed, _ = watch.communicate(timeout=60)
        assert "first\n" in printed and "last" in printed and watch.returncode == 0
    finally:
        gate.touch()
        watch.kill()
        watch.wait(60)


def test_chain_watch_shows_lines_while_each_command_runs(fleet: Fleet, tmp_path: Path) -> None:
    """The second command runs in a job of its own, which resumes the chain after a reboot."""
    gates = {word: tmp_path / word for word in ("before", "after")}
    fleet.catena("chain", "create", "loud")
    for word, gate in gates.items():
        if word == "after":
            fleet.catena("chain", "add", "loud", "-t", "web1", "--reboot")
        line = f"echo {word}; while [ ! -e {gate} ]; do sleep 0.1; done"
        fleet.catena("chain", "add", "loud", "-t", "web1", "--cmd", line)
    command = ("chain", "schedule", "loud", "--watch")
    watch = subprocess.Popen(
        [sys.executable, "-m", "catena", "-c", str(fleet.config), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert watch.stderr is not None
        for word, gate in gates.items():
            assert watch.stderr.readline() == f"web1: {word}\n"
            assert watch.poll() is None
            gate.touch()
        watch.communicate(timeout=60)
        assert watch.returncode == 0
    finally:
        for gate in gates.values():
            gate.touch()
        watch.kill()
        watch.wait(60)

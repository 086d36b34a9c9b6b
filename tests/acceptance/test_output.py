"""What a running job prints, as `catena job watch` shows it."""

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

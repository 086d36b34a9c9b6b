"""Log files that logrotate renames are opened again."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from fleet import free_ports, wait_for


def start(
    folder: Path, which: str, log_file: str, options: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Start a master, or a minion that finds no master, with everything below *folder*."""
    config = folder / "etc"
    config.mkdir()
    settings: dict[str, object] = {"root_dir": str(folder), "log_file": log_file}
    if which == "master":
        settings |= {"interface": "127.0.0.1", "port": free_ports()}
    else:
        settings |= {"id": "web1", "machine_id": "c" * 32, "master": "127.0.0.1"}
        settings |= {"master_port": free_ports()}
    (config / which).write_text(yaml.safe_dump(settings))
    words = [sys.executable, "-m", "catena", "-c", str(config), which, *options]
    return subprocess.Popen(words, stderr=subprocess.PIPE, start_new_session=True)


@contextmanager
def daemon(
    folder: Path, which: str, log_file: str, options: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    process = start(folder, which, log_file, options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def is_ready(folder: Path, which: str) -> bool:
    return (folder / f"run/catena/{which}/{which}.sock").exists()


@pytest.mark.parametrize("which", ["master", "minion"])
def test_sighup_makes_a_daemon_open_its_rotated_log(which: str) -> None:
    with tempfile.TemporaryDirectory(prefix="cat-") as name:
        folder = Path(name)
        log = folder / "log" / which
        with daemon(folder, which, str(log)) as process:
            wait_for("the daemon", lambda: is_ready(folder, which))
            log.rename(log.with_suffix(".1"))
            process.send_signal(signal.SIGHUP)
            wait_for("a new log file", lambda: log.exists() and "reopened" in log.read_text())
            process.terminate()
            assert process.wait(60) == 0
        assert "stop" in log.read_text()
        assert "stop" not in log.with_suffix(".1").read_text()


@pytest.mark.parametrize("which", ["master", "minion"])
def test_sighup_ends_a_daemon_that_logs_to_its_terminal(which: str) -> None:
    with tempfile.TemporaryDirectory(prefix="cat-") as name:
        folder = Path(name)
        with daemon(folder, which, "-") as process:
            wait_for("the daemon", lambda: is_ready(folder, which))
            process.send_signal(signal.SIGHUP)
            assert process.wait(60) == 0


@pytest.mark.parametrize("which", ["master", "minion"])
def test_log_level_of_the_command_line_shows_a_daemons_log(which: str) -> None:
    with tempfile.TemporaryDirectory(prefix="cat-") as name:
        folder = Path(name)
        log = folder / "log" / which
        with daemon(folder, which, str(log), ["-l", "info"]) as process:
            wait_for("the daemon", lambda: is_ready(folder, which))
            process.terminate()
            shown = process.communicate(timeout=60)[1].decode()
        assert "stop" in shown
        assert not log.exists()

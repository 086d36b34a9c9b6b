"""The agent's log file: modes, rotation, lines that no terminal obeys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from catena.core.clock import SystemClock
from catena.minion.log import Log


def opened(path: Path) -> Log:
    return Log.open(str(path), "info", SystemClock())


def test_log_follows_its_path_when_the_file_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "minion"
    log = opened(path)
    log.info("before")
    path.rename(tmp_path / "minion.1")
    log.info("after")
    assert "before" in (tmp_path / "minion.1").read_text()
    assert "after" in path.read_text()
    assert "after" not in (tmp_path / "minion.1").read_text()


def test_log_is_written_when_its_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "minion"
    log = opened(path)
    path.unlink()
    log.warning("still here")
    assert "still here" in path.read_text()


def test_log_keeps_the_rotated_file_when_the_path_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "minion"
    log = opened(path)
    path.rename(tmp_path / "minion.1")
    path.mkdir()
    log.error("somewhere")
    assert "somewhere" in (tmp_path / "minion.1").read_text()


def test_rotations_leak_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "minion"
    log = opened(path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        path.unlink()
        log.info("line")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_log_on_stderr_is_no_file(capfd: pytest.CaptureFixture[str]) -> None:
    log = Log.open("-", "info", SystemClock())
    log.reopen()
    log.info("a \x1b[2J line")
    assert not log.is_file
    assert "a \\x1b[2J line" in capfd.readouterr().err


def test_log_goes_to_stderr_when_a_pipe_is_in_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "minion")
    assert not opened(tmp_path / "minion").is_file
    said = capsys.readouterr().err
    assert "is a pipe, a socket or a block device" in said and "logging to stderr" in said
    assert opened(Path("/dev/null")).is_file

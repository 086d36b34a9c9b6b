"""The master's log file: modes, rotation, lines that no terminal obeys."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from catena.core.errors import ConfigError
from catena.master.process import log


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    before, level = list(logger.handlers), logger.level
    yield logger
    for handler in [h for h in logger.handlers if h not in before]:
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)


def test_log_follows_its_path_when_the_file_is_rotated(
    tmp_path: Path, root: logging.Logger
) -> None:
    path = tmp_path / "log" / "master"
    log.set_up(str(path), "info")
    root.info("before")
    path.rename(path.with_name("master.1"))
    root.info("after")
    assert "before" in path.with_name("master.1").read_text()
    assert "after" in path.read_text()
    assert path.stat().st_mode & 0o777 & ~0o640 == 0


def test_log_keeps_the_rotated_file_when_the_path_cannot_be_opened(
    tmp_path: Path, root: logging.Logger
) -> None:
    path = tmp_path / "master"
    log.set_up(str(path), "info")
    path.rename(tmp_path / "master.1")
    path.mkdir()
    root.error("somewhere")
    assert "somewhere" in (tmp_path / "master.1").read_text()


def test_reopen_says_whether_there_is_a_file(tmp_path: Path, root: logging.Logger) -> None:
    log.set_up("-", "info")
    assert not log.reopen()
    log.set_up(str(tmp_path / "master"), "info")
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert log.reopen()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def _bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, _bind])
def test_log_refuses_a_pipe_and_a_socket(
    tmp_path: Path, root: logging.Logger, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "log")
    with pytest.raises(ConfigError, match="is a pipe, a socket or a block device"):
        log.set_up(str(tmp_path / "log"), "info")


def test_log_refuses_a_pipe_that_somebody_reads(tmp_path: Path, root: logging.Logger) -> None:
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(ConfigError, match="is a pipe"):
        log.set_up(str(tmp_path / "log"), "info")
    os.close(reader)


def test_log_accepts_a_character_device(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log.set_up("/dev/null", "info")
    root.error("gone")
    assert "/dev/null" in [getattr(one, "baseFilename", "") for one in root.handlers]
    # A handler that can't write says so on stderr.
    assert capsys.readouterr() == ("", "")


def test_log_keeps_its_file_when_a_pipe_takes_its_place(
    tmp_path: Path, root: logging.Logger
) -> None:
    path = tmp_path / "master"
    log.set_up(str(path), "info")
    path.rename(tmp_path / "master.1")
    os.mkfifo(path)
    root.error("somewhere")
    assert "somewhere" in (tmp_path / "master.1").read_text()

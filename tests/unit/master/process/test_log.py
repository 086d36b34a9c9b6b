"""The master's log file: modes, rotation, lines that no terminal obeys."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

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

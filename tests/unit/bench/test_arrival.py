"""A file is waited for without looking again and again."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from bench.arrival import Arrivals
from bench.errors import BenchError


def test_a_file_is_seen_that_comes_or_is_there(tmp_path: Path) -> None:
    file = tmp_path / "stamp"
    with closing(Arrivals(tmp_path)) as arrivals:
        (tmp_path / "another").touch()
        maker = threading.Thread(target=file.touch)
        maker.start()
        came = arrivals.wait(file)
        maker.join()
        assert file.exists()
        assert arrivals.wait(file) >= came


def test_one_that_does_not_come_is_named(tmp_path: Path) -> None:
    with closing(Arrivals(tmp_path)) as arrivals, pytest.raises(BenchError, match="stamp"):
        arrivals.wait(tmp_path / "stamp", patience=0.01)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="nowhere can't be watched: No such file"):
        Arrivals(tmp_path / "nowhere")

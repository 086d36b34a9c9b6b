"""Arrivals of files are noticed without polling."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from bench.arrival import Arrivals
from bench.errors import BenchError


def test_new_or_existing_file_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "stamp"
    with closing(Arrivals(tmp_path)) as arrivals:
        (tmp_path / "another").touch()
        maker = threading.Thread(target=file.touch)
        maker.start()
        came = arrivals.wait(file)
        maker.join()
        assert file.exists()
        assert arrivals.wait(file) >= came


def test_missing_file_is_named_after_the_wait(tmp_path: Path) -> None:
    with closing(Arrivals(tmp_path)) as arrivals, pytest.raises(BenchError, match="stamp"):
        arrivals.wait(tmp_path / "stamp", patience=0.01)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="nowhere can't be watched: No such file"):
        Arrivals(tmp_path / "nowhere")

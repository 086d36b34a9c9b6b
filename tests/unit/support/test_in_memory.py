from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import in_memory


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Give a folder with space and without restrictions, and no choice of the caller."""
    monkeypatch.setattr(in_memory, "FOLDER", tmp_path)
    monkeypatch.setattr(in_memory, "NEEDED", 0)
    monkeypatch.setattr(in_memory, "_FORBIDDEN", 0)
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())
    before = os.environ.pop("TMPDIR", None)
    yield tmp_path
    os.environ.pop("TMPDIR", None)
    if before is not None:
        os.environ["TMPDIR"] = before


def test_temporary_files_are_in_memory(free: Path) -> None:
    in_memory.use()
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(free)


def test_folder_of_the_caller_stays(free: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/else")
    in_memory.use()
    assert os.environ["TMPDIR"] == "/else"
    assert tempfile.gettempdir() != str(free)


@pytest.mark.parametrize(("name", "value"), [("NEEDED", 2**62), ("_FORBIDDEN", ~0)])
def test_folder_without_space_or_with_restrictions_is_not_used(
    free: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(in_memory, name, value)
    in_memory.use()
    assert "TMPDIR" not in os.environ


def test_missing_folder_does_not_fit(tmp_path: Path) -> None:
    assert not in_memory.fits(tmp_path / "nowhere")

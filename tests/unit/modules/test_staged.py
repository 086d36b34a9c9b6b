"""Staged files are created completely, with their modes, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from catena.modules.file import staged
from catena.modules.file.staged import Staged


def _modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


@pytest.mark.parametrize("count", [1, 20], ids=["one by one", "together"])
def test_files_get_content_and_mode(tmp_path: Path, count: int) -> None:
    files = [(tmp_path / f"f{n}", b"%d" % n, "0640") for n in range(count)]
    with Staged(files) as group:
        assert not list(tmp_path.iterdir())
        for path, data, mode in files:
            group.write(path, data, mode)
    assert _modes(tmp_path) == {f"f{n}": 0o640 for n in range(count)}
    assert [path.read_bytes() for path, _, _ in files] == [data for _, data, _ in files]


def test_file_without_a_mode_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with Staged([(tmp_path / "f", b"x", None)]) as group:
            group.write(tmp_path / "f", b"x")
    finally:
        os.umask(before)
    assert _modes(tmp_path) == {"f": 0o640}


def test_staged_file_is_not_created_unless_committed(tmp_path: Path) -> None:
    with Staged([(tmp_path / "f", b"x", None)]):
        pass
    assert not list(tmp_path.iterdir())


def test_other_bytes_or_another_mode_than_staged_are_written(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with Staged([(path, b"staged", "0600") for path in paths]) as group:
        group.write(paths[0], b"other", "0600")
        group.write(paths[1], b"staged", "0644")
    assert [path.read_bytes() for path in paths] == [b"other", b"staged"]
    assert _modes(tmp_path) == {"a": 0o600, "b": 0o644}


def test_file_created_by_others_meanwhile_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with Staged([(path, b"ours", "0600")]) as group:
        path.write_bytes(b"somebody else's")
        path.chmod(0o604)
        group.write(path, b"ours", "0600")
    assert path.read_bytes() == b"ours"
    assert _modes(tmp_path) == {"f": 0o604}


def test_late_folders_and_large_files_are_written(tmp_path: Path) -> None:
    late, large = tmp_path / "later" / "f", tmp_path / "large"
    data = bytes(staged.FILE_BYTES + 1)
    with Staged([(late, b"x", None), (large, data, None)]) as group:
        late.parent.mkdir()
        group.write(late, b"x")
        group.write(large, data)
    assert late.read_bytes() == b"x" and large.stat().st_size == len(data)


@pytest.mark.parametrize("lacks", ["O_TMPFILE", "kernel"])
def test_systems_without_nameless_files_write_directly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    if lacks == "O_TMPFILE":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    else:
        monkeypatch.setattr(staged, "_tells_errors", lambda: False)
    files = [(tmp_path / f"f{n}", b"x", "0600") for n in range(20)]
    with Staged(files) as group:
        for path, data, mode in files:
            group.write(path, data, mode)
    assert _modes(tmp_path) == {f"f{n}": 0o600 for n in range(20)}

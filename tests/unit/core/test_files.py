from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from catena.core.errors import LimitError
from catena.core.files import (
    UnsafeFolderError,
    alone,
    key_folder,
    private_folder,
    read_limited,
    write_durable,
    write_many_durable,
)


def test_durable_write_replaces_the_content_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "x"
    write_durable(target, b"old")
    write_durable(target, b"new")
    assert target.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_new_file_is_private_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_durable(tmp_path / "x", b"secret")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


def test_failed_write_keeps_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x"
    write_durable(target, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_durable(target, b"new")
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_error_of_a_write_names_the_target(tmp_path: Path) -> None:
    target = tmp_path / "none" / "file"
    with pytest.raises(FileNotFoundError) as missing:
        write_durable(target, b"x")
    assert str(missing.value).endswith(f"{str(target)!r}")
    with pytest.raises(OSError) as folder:
        write_durable(tmp_path, b"x")
    assert str(folder.value).endswith(f"{str(tmp_path)!r}")


def test_content_is_fsynced_before_the_rename_and_the_rename_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, rename = os.fsync, Path.rename

    def noted_sync(handle: int) -> None:
        steps.append(f"sync {_kind(handle)}")
        sync(handle)

    def noted_rename(self: Path, to: Path) -> Path:
        steps.append("rename")
        return rename(self, to)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    write_durable(tmp_path / "x", b"1")
    assert steps == ["sync file", "rename", "sync folder"]


def _kind(handle: int) -> str:
    return "folder" if Path(f"/proc/self/fd/{handle}").is_dir() else "file"


def test_link_in_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"keep")
    (tmp_path / f".x.{os.getpid()}.new").symlink_to(victim)
    with pytest.raises(OSError):
        write_durable(tmp_path / "x", b"new")
    assert victim.read_bytes() == b"keep"


def test_reading_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    assert read_limited(tmp_path / "x", 5) == b"12345"
    with pytest.raises(LimitError, match="larger than 4 bytes"):
        read_limited(tmp_path / "x", 4)


def test_reading_a_named_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LimitError, match="not a regular file"):
        read_limited(tmp_path / "pipe", 10)


def test_private_folder_is_created_with_mode_0700(tmp_path: Path) -> None:
    assert private_folder(tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_key_folder_has_the_modes_that_the_units_create(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        key_folder(tmp_path / "etc/catena/pki/minion")
        key_folder(tmp_path / "conf/state/keys")
    finally:
        os.umask(before)
    modes = {
        name: (tmp_path / name).stat().st_mode & 0o777
        for name in ("etc/catena", "etc/catena/pki", "etc/catena/pki/minion", "conf/state")
    }
    assert modes == {
        "etc/catena": 0o755, "etc/catena/pki": 0o700, "etc/catena/pki/minion": 0o700,
        "conf/state": 0o755,
    }  # fmt: skip


def test_private_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o770)
    with pytest.raises(UnsafeFolderError, match="others may write"):
        private_folder(folder)


def test_link_is_refused_as_private_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(UnsafeFolderError):
        private_folder(tmp_path / "link")


def test_lock_file_is_held_until_the_block_ends(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    with alone(lock), lock.open("rb") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_writing_many_files_replaces_each_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "f1").write_bytes(b"old")
    files = {f"f{number}": b"%d" % number for number in range(300)}
    write_many_durable(tmp_path, files)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert (tmp_path / "f1").stat().st_mode & 0o777 == 0o600


def test_failed_write_of_many_files_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(OSError):
        write_many_durable(tmp_path, {"a": b"new", "b": b"is a folder"})
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []

"""Files in folders of users: links are not followed, attributes stay."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from catena.core.errors import CommandExecutionError
from catena.modules.shared import users_files
from catena.modules.shared.users_files import Owner

USER = Owner(4711, 4712)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


def give(path: Path) -> None:
    os.chown(path, USER.uid, USER.gid, follow_symlinks=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home that its user owns, beside a secret of root."""
    tmp_path.chmod(0o755)
    (tmp_path / "root").mkdir(mode=0o700)
    (tmp_path / "root" / "secret").write_text("secret")
    folder = tmp_path / "home"
    folder.mkdir()
    give(folder)
    return folder


def owned(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


@as_root
def test_new_file_and_folder_are_private_and_of_the_user(home: Path) -> None:
    path = home / ".ssh" / "authorized_keys"
    assert users_files.read(path) is None
    users_files.write(path, b"new\n", USER)
    assert users_files.read(path) == b"new\n"
    assert owned(path) == (USER.uid, USER.gid, 0o600)
    assert owned(path.parent) == (USER.uid, USER.gid, 0o700)
    assert [one.name for one in path.parent.iterdir()] == ["authorized_keys"]


@as_root
def test_existing_file_keeps_owner_and_mode(home: Path) -> None:
    path = home / "file"
    path.write_text("old")
    path.chmod(0o640)
    users_files.write(path, b"new", USER)
    assert owned(path) == (0, 0, 0o640)


@as_root
@pytest.mark.parametrize("target", ["../root", "{root}", "../root/../root"])
def test_linked_folder_of_a_user_is_not_followed(home: Path, target: str) -> None:
    secret = home.parent / "root"
    link = home / ".ssh"
    link.symlink_to(target.format(root=secret))
    give(link)
    refusal = r"'\.ssh' is a symbolic link"
    with pytest.raises(CommandExecutionError, match=refusal):
        users_files.read(link / "secret")
    with pytest.raises(CommandExecutionError, match=refusal):
        users_files.write(link / "secret", b"mine", USER)
    assert (secret / "secret").read_text() == "secret"


@as_root
@pytest.mark.parametrize("owner", [0, USER.uid])
def test_linked_file_in_a_users_folder_is_not_followed(home: Path, owner: int) -> None:
    link = home / "keys"
    link.symlink_to(home.parent / "root" / "secret")
    os.chown(link, owner, owner, follow_symlinks=False)
    with pytest.raises(CommandExecutionError, match="is a symbolic link"):
        users_files.write(link, b"mine", USER)
    with pytest.raises(CommandExecutionError, match="is a symbolic link"):
        users_files.read(link)
    assert (home.parent / "root" / "secret").read_text() == "secret"


def test_links_in_the_callers_own_folders_are_followed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "short").symlink_to("real/deep/..")
    (tmp_path / "link").symlink_to(tmp_path / "short" / "file")
    owner = Owner(os.geteuid(), os.getegid())
    users_files.write(tmp_path / "link", b"x", owner)
    assert (tmp_path / "real" / "file").read_bytes() == b"x"
    assert (tmp_path / "link").is_symlink()


def test_circular_links_are_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(CommandExecutionError, match="symbolic links"):
        users_files.read(tmp_path / "a")


def test_pipes_folders_and_relative_paths_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    owner = Owner(os.geteuid(), os.getegid())
    for path in (tmp_path / "pipe", tmp_path, Path("/"), Path("relative")):
        with pytest.raises(CommandExecutionError):
            users_files.read(path)
        with pytest.raises(CommandExecutionError):
            users_files.write(path, b"x", owner)
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]


def test_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users_files, "FILE_BYTES", 3)
    (tmp_path / "file").write_text("four")
    with pytest.raises(CommandExecutionError, match="too large"):
        users_files.read(tmp_path / "file")

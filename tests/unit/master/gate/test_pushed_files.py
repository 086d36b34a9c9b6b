"""Files that minions push to the master."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from catena.core.errors import CatenaError, LimitError, NotAllowedError, UsageError
from catena.master.gate import pushed_files
from catena.master.gate.pushed_files import PushedFiles
from catena.transport.messages import FilePush, FileStored


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "minions"


@pytest.fixture
def store(folder: Path) -> PushedFiles:
    return PushedFiles(folder, True, 100, 250)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def send(store: PushedFiles, minion: str, path: str, *data: bytes) -> FileStored:
    whole = digest(b"".join(data))
    found = FileStored("", "", False)
    for index, one in enumerate(data):
        found = store.put(minion, FilePush(path, whole, index, len(data), one))
    return found


def test_pieces_become_one_private_file(store: PushedFiles, folder: Path) -> None:
    assert send(store, "web1", "var/log/a", b"one", b"two").done
    target = folder / "web1/files/var/log/a"
    assert target.read_bytes() == b"onetwo" and target.stat().st_mode & 0o777 == 0o600
    assert send(store, "web1", "var/log/a", b"three").done
    assert target.read_bytes() == b"three"
    assert list((folder / "web1/incoming").iterdir()) == []


def test_master_accepts_nothing_by_default(folder: Path) -> None:
    with pytest.raises(NotAllowedError, match="file_recv"):
        send(PushedFiles(folder, False, 100, 100), "web1", "a", b"x")
    assert not folder.exists()


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a\0", "a\nb", "a/" * 33 + "b",
             "x" * 256]
)  # fmt: skip
def test_path_that_could_leave_the_folder_is_refused(
    store: PushedFiles, folder: Path, path: str
) -> None:
    with pytest.raises(UsageError):
        send(store, "web1", path, b"x")
    assert not folder.exists()


def test_link_in_the_folder_is_not_followed(
    store: PushedFiles, folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "web1/files").mkdir(parents=True)
    (folder / "web1/files/link").symlink_to(outside)
    with pytest.raises((CatenaError, OSError)):
        send(store, "web1", "link/a", b"x")
    assert list(outside.iterdir()) == []


def test_file_is_not_replaced_by_a_folder(store: PushedFiles) -> None:
    send(store, "web1", "a", b"x")
    with pytest.raises(UsageError):
        send(store, "web1", "a/b", b"y")


def test_resent_piece_is_not_stored_twice(store: PushedFiles, folder: Path) -> None:
    whole = digest(b"onetwo")
    store.put("web1", FilePush("a", whole, 0, 2, b"one"))
    store.put("web1", FilePush("a", whole, 0, 2, b"one"))
    assert store.put("web1", FilePush("a", whole, 1, 2, b"two")).done
    assert (folder / "web1/files/a").read_bytes() == b"onetwo"


@pytest.mark.parametrize(
    "part",
    [
        FilePush("a", digest(b"x"), 1, 2, b"x"),
        FilePush("a", digest(b"x"), -1, 1, b"x"),
        FilePush("a", digest(b"x"), 1, 1, b"x"),
        FilePush("a", "0" * 63, 0, 1, b"x"),
        FilePush("a", "../../../../../../x" + "0" * 45, 0, 1, b"x"),
        FilePush("a", digest(b"y"), 0, 1, b"x"),
    ],
)
def test_piece_that_does_not_fit_is_refused(
    store: PushedFiles, folder: Path, part: FilePush
) -> None:
    with pytest.raises(UsageError):
        store.put("web1", part)
    assert not (folder / "web1/files/a").exists()


def test_limits_of_a_file_and_of_a_minion(store: PushedFiles, folder: Path) -> None:
    with pytest.raises(LimitError, match="larger than 100"):
        send(store, "web1", "a", b"x" * 60, b"x" * 60)
    for name in ("a", "b"):
        send(store, "web1", name, name.encode() * 100)
    with pytest.raises(LimitError, match="200 bytes in 2 files"):
        send(store, "web1", "c", b"c" * 100)
    assert send(store, "web2", "c", b"c" * 100).done
    assert list((folder / "web1/incoming").iterdir()) == []


def test_abandoned_uploads_of_a_minion_are_dropped(store: PushedFiles, folder: Path) -> None:
    for number in range(pushed_files.OPEN + 3):
        data = str(number).encode()
        store.put("web1", FilePush("a", digest(data), 0, 2, b"x"))
    assert len(list((folder / "web1/incoming").iterdir())) == pushed_files.OPEN

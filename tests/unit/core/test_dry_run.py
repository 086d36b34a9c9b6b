"""The guard by itself: what it refuses, what it spares, and where it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from catena.core.dry_run import (
    TestModeError,
    announce,
    is_refusing,
    only_looking,
    refusing_changes,
    unguarded,
)


def _descriptor(path: Path) -> int:
    return os.open(path, os.O_RDONLY)


CHANGES: dict[str, Callable[[Path], object]] = {
    "append": lambda at: (at / "file").open("a"),
    "write": lambda at: (at / "new").write_text("x"),
    "update": lambda at: (at / "file").open("r+"),
    "through a link": lambda at: (at / "link").write_text("x"),
    "descriptor": lambda at: os.open(at / "new", os.O_CREAT | os.O_WRONLY),
    "mkdir": lambda at: (at / "deep").mkdir(),
    "rmdir": lambda at: (at / "folder").rmdir(),
    "remove": lambda at: (at / "file").unlink(),
    "rename": lambda at: (at / "file").rename(at / "other"),
    "replace": lambda at: (at / "other").replace(at / "file"),
    "rmtree": lambda at: shutil.rmtree(at / "folder"),
    "copy": lambda at: shutil.copy2(at / "file", at / "copied"),
    "symlink": lambda at: (at / "new").symlink_to("file"),
    "hard link": lambda at: os.link(at / "file", at / "new"),
    "chmod": lambda at: (at / "file").chmod(0o600),
    "chmod by descriptor": lambda at: os.fchmod(_descriptor(at / "file"), 0o600),
    "chown": lambda at: os.chown(at / "file", os.getuid(), -1),
    "utime": lambda at: os.utime(at / "file"),
    "touch": lambda at: (at / "file").touch(),
    "truncate": lambda at: os.truncate(at / "file", 0),
    "xattr": lambda at: os.setxattr(at / "file", "user.x", b"1"),
    "temporary file beside it": lambda at: tempfile.mkstemp(dir=at),
    "command": lambda at: subprocess.run(["true"], check=True),
    "shell": lambda at: os.system("true"),
    "spawn": lambda at: os.posix_spawn("/bin/true", ["true"], {}),
    "signal": lambda at: os.kill(os.getpid(), signal.SIGCONT),
    "variable": lambda at: os.environ.update(CATENA_TEST_MODE="1"),
    "announced": lambda at: announce("make the device x"),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("content")
    (tmp_path / "other").write_text("other")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    return tmp_path


def stats(place: Path) -> dict[Path, tuple[int, ...]]:
    """Return what a change would change; the time of the last read is none of it."""
    found = {path: path.lstat() for path in place.rglob("*")}
    return {
        path: (one.st_mode, one.st_uid, one.st_gid, one.st_size, one.st_mtime_ns, one.st_ctime_ns)
        for path, one in found.items()
    }


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_change_is_refused_in_test_mode(place: Path, change: Callable[[Path], object]) -> None:
    before = stats(place)
    with refusing_changes(), pytest.raises(TestModeError, match="test mode refused to"):
        change(place)
    assert stats(place) == before
    assert "CATENA_TEST_MODE" not in os.environ


def test_reading_is_allowed_in_test_mode(place: Path) -> None:
    with refusing_changes():
        assert (place / "file").read_text() == "content"
        assert sorted(os.listdir(place)) == ["file", "folder", "link", "other"]  # noqa: PTH208


def test_writes_to_folders_of_the_agent_are_allowed(place: Path) -> None:
    with refusing_changes((str(place / "folder"),)):
        (place / "folder" / "cached").write_text("x")
        assert (place / "folder" / "cached").read_text() == "x"
        (place / "folder" / "cached").unlink()
    assert not (place / "folder" / "cached").exists()


def test_link_from_a_folder_of_the_agent_does_not_allow_writes_to_its_target(place: Path) -> None:
    (place / "folder" / "out").symlink_to(place / "file")
    with refusing_changes((str(place / "folder"),)), pytest.raises(TestModeError):
        (place / "folder" / "out").write_text("x")


def test_writes_to_the_temporary_folder_of_the_system_are_allowed() -> None:
    with refusing_changes(), tempfile.TemporaryDirectory() as folder:
        Path(folder, "x").write_text("x")
    assert not Path(folder).exists()


def test_only_looking_runs_commands_and_refuses_writes(place: Path) -> None:
    with refusing_changes(), only_looking():
        assert subprocess.run(["echo", "x"], capture_output=True, check=True).stdout == b"x\n"
        with pytest.raises(TestModeError):
            (place / "new").write_text("x")
    with refusing_changes():
        assert is_refusing()


def test_only_looking_allows_writes_outside_test_mode(place: Path) -> None:
    with only_looking():
        (place / "new").write_text("x")
    assert (place / "new").read_text() == "x"


def test_unguarded_block_may_write_and_the_guard_resumes_after_it(place: Path) -> None:
    with refusing_changes():
        with unguarded():
            (place / "new").write_text("x")
        with pytest.raises(TestModeError):
            (place / "new").unlink()


def test_guard_ends_when_its_block_raises(place: Path) -> None:
    with pytest.raises(ZeroDivisionError), refusing_changes():
        raise ZeroDivisionError
    (place / "new").write_text("x")
    assert not is_refusing()


def test_other_threads_are_not_guarded(place: Path) -> None:
    with refusing_changes():
        other = threading.Thread(target=(place / "log").write_text, args=("x",))
        other.start()
        other.join()
    assert (place / "log").read_text() == "x"


def test_forked_child_is_guarded(place: Path) -> None:
    with refusing_changes(), only_looking():
        child = os.fork()
        if not child:
            try:
                (place / "new").write_text("x")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    assert not (place / "new").exists()


def test_null_device_may_be_written_but_its_mode_may_not_be_changed() -> None:
    with refusing_changes():
        Path("/dev/null").write_text("nothing")
        with pytest.raises(TestModeError, match="set the mode of /dev/null"):
            Path("/dev/null").chmod(0o666)

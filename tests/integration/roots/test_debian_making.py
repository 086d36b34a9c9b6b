"""Debian roots are made completely or not at all, and removed without following mounts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import debian_making, debian_roots
from tests.support.debian_making import UnmadeRootError, make, mounts_in, place, remove
from tests.support.debian_roots import require

REPOSITORY = Path(__file__).parents[3]
#: Stands in for debootstrap: mounts what that mounts, and waits at a pipe where there is one.
DEBOOTSTRAP = """\
#!/bin/sh
echo "$@" >> {base}/calls
mkdir -p "$4/proc" && mount -t proc proc "$4/proc" || exit 9
echo I: Retrieving everything
[ -p {base}/gate ] && read line < {base}/gate
[ -e {base}/fails ] && echo E: no such suite && exit 1
umount "$4/proc"
touch "$4/whole"
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with an empty cache and a debootstrap that takes no time."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        require("needs root and unshare to mount in a namespace of its own")
    tool = tmp_path / "bin/debootstrap"
    tool.parent.mkdir()
    tool.write_text(DEBOOTSTRAP.format(base=tmp_path))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CATENA_TEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CATENA_TEST_MIRROR", "http://mirror.invalid/debian")
    monkeypatch.setattr(debian_making, "CACHE", tmp_path / "cache")
    return tmp_path


def nothing(line: str) -> None:
    """Hear of progress."""


def maker() -> subprocess.Popen[str]:
    """Start another process that makes the same root."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.debian_making", "trixie"],
        cwd=REPOSITORY, text=True, stderr=subprocess.PIPE,
    )  # fmt: skip


def calls(base: Path) -> list[str]:
    return (base / "calls").read_text().splitlines()


def folders(base: Path) -> list[str]:
    return sorted(path.name for path in (base / "cache").iterdir() if path.is_dir())


def test_root_gets_its_name_only_when_it_is_complete(base: Path) -> None:
    said: list[str] = []
    make(["trixie"], said.append)
    assert (place("trixie") / "whole").exists()
    assert folders(base) == [place("trixie").name]
    assert calls(base)[0].split()[2] == "trixie"
    assert calls(base)[0].endswith(" http://mirror.invalid/debian")
    assert "being made" in said[0]
    assert "made in" in said[-1]
    make(["trixie"], said.append)
    assert len(calls(base)) == 1


def test_failed_build_reports_the_reason_and_leaves_nothing(base: Path) -> None:
    (base / "fails").touch()
    with pytest.raises(UnmadeRootError, match="E: no such suite"):
        make(["trixie"], nothing)
    assert folders(base) == []
    (base / "fails").unlink()
    make(["trixie"], nothing)
    assert folders(base) == [place("trixie").name]


def test_killed_build_leaves_nothing_mounted_and_the_next_one_cleans_up(base: Path) -> None:
    os.mkfifo(base / "gate")
    killed = maker()
    # Opening it returns once the tool waits there, with /proc mounted.
    with (base / "gate").open("w"):
        assert mounts_in(base / "cache") == []
        killed.kill()
        killed.communicate()
    (half,) = folders(base)
    assert half.startswith(".trixie.")
    (base / "gate").unlink()
    make(["trixie"], nothing)
    assert folders(base) == [place("trixie").name]


def test_two_processes_build_a_root_once(base: Path) -> None:
    os.mkfifo(base / "gate")
    first = maker()
    with (base / "gate").open("w") as gate:
        second = maker()
        assert second.stderr is not None
        assert "another process makes it" in second.stderr.readline()
        gate.write("go on\n")
    for process in (first, second):
        process.communicate()
        assert process.returncode == 0
    assert len(calls(base)) == 1
    assert folders(base) == [place("trixie").name]


def test_session_continues_while_a_root_is_built(base: Path) -> None:
    os.mkfifo(base / "gate")
    debian_roots.begin(["trixie"])
    with (base / "gate").open("w") as gate:
        assert not place("trixie").exists()
        gate.write("go on\n")
    debian_roots.prepare(["trixie"], nothing)
    assert debian_roots.base("trixie") == place("trixie")
    assert len(calls(base)) == 1
    debian_roots.begin(["trixie"])
    assert len(calls(base)) == 1


@contextlib.contextmanager
def half_built(root: Path, shared: Path) -> Iterator[None]:
    """Leave a root as older versions did: /proc and a folder of this machine mounted in it."""
    shared.mkdir()
    (shared / "canary").touch()
    for name in ("proc", "dev"):
        (root / name).mkdir(parents=True)
    subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
    subprocess.run(["mount", "--bind", shared, root / "dev"], check=True)
    try:
        yield
    finally:
        for path in mounts_in(root):
            subprocess.run(["umount", "--lazy", path], check=False)


def test_half_built_root_of_an_older_version_is_removed(base: Path) -> None:
    old = base / "cache/trixie"
    with half_built(old, base / "shared"):
        make(["trixie"], nothing)
        assert not old.exists()
    assert (base / "shared/canary").exists()
    assert folders(base) == [place("trixie").name]


def test_root_of_an_older_version_is_not_removed_while_in_use(base: Path) -> None:
    old = base / "cache/trixie"
    old.mkdir(parents=True)
    (old / ".complete").touch()
    make(["trixie"], nothing)
    assert (old / ".complete").exists()


def test_removal_does_not_cross_a_mount_that_stays(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = base / "cache/root"
    with half_built(root, base / "shared"):
        monkeypatch.setenv("PATH", str(base / "bin"))
        (base / "bin/umount").write_text("#!/bin/sh\nexit 32\n")
        (base / "bin/umount").chmod(0o755)
        with pytest.raises(UnmadeRootError, match="is mounted; unmount it"):
            remove(root)
        monkeypatch.undo()
        assert (base / "shared/canary").exists()


def test_mount_in_a_folder_with_a_blank_is_found(base: Path) -> None:
    root = base / "a root"
    with half_built(root, base / "shared"):
        assert mounts_in(root) == [root / "dev", root / "proc"]
        remove(root)
    assert not root.exists()
    assert (base / "shared/canary").exists()


@pytest.mark.parametrize(
    ("listed", "address"),
    [
        ("main bookworm-security http://a.invalid/s/\nmain bookworm http://a.invalid/d/",
         "http://a.invalid/d"),
        ("contrib trixie http://b.invalid/x\nmain trixie http://b.invalid/y", "http://b.invalid/y"),
        ("", ""),
        ("main stable-updates http://c.invalid/d/", ""),
    ],
)  # fmt: skip
def test_archive_is_the_one_that_apt_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str, address: str
) -> None:
    tool = tmp_path / "apt-get"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{listed}\nEND\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CATENA_TEST_MIRROR", raising=False)
    if address:
        assert debian_making.archive() == address
    else:
        with pytest.raises(UnmadeRootError, match="CATENA_TEST_MIRROR"):
            debian_making.archive()


def test_no_file_of_the_repository_names_an_archive() -> None:
    named = re.compile(r"(?:deb|ftp|security|archive|snapshot)\.(?:debian\.org|ubuntu\.com)")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    files = [REPOSITORY / name for name in listed.stdout.split("\0") if name]
    texts = {
        path: path.read_bytes().decode("utf-8", "replace") for path in files if path.is_file()
    }
    assert [str(path) for path, text in texts.items() if named.search(text)] == []

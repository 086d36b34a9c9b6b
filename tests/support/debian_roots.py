"""Debian roots for tests that need a real system, each test with an overlay of its own on top.

Roots and layers of packages over them are kept in /var/cache/catena-tests (or $CATENA_TEST_CACHE).
A test names those that it needs. A process in the background makes the missing ones from the start
of the session (`tests.support.debian_making`); a test waits for them outside its time limit:

    pytestmark = [pytest.mark.container, pytest.mark.roots("bookworm", "bookworm-ssh")]

Needs root, debootstrap and overlayfs; on CI their lack is a failure.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support import debian_making

#: Devices that commands in a root need, by name: (major, minor).
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
#: Why a root is not there, by its name.
_unmade: dict[str, str] = {}


def require(reason: str) -> NoReturn:
    """Skip a test for want of something on this machine; on CI, fail it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def begin(names: Sequence[str]) -> None:
    """Start a process that makes the missing ones of the roots *names*.

    It outlives an interrupted session, and the next session finds what it has made. It is no child
    of this process: some tests count their children.
    """
    if debian_making.missing() or all(debian_making.place(name).exists() for name in names):
        return
    maker = (sys.executable, "-m", debian_making.__name__, *names)
    subprocess.run(
        ("setsid", "--fork", *maker),
        check=True, cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def prepare(names: Sequence[str], say: Callable[[str], None]) -> None:
    """Wait for the roots *names* or make them; where that fails, their tests say why."""
    if debian_making.missing():
        return
    for name in names:
        if name in _unmade:
            continue
        try:
            debian_making.make([name], say)
        except (debian_making.UnmadeRootError, OSError) as error:
            _unmade[name] = str(error)
            say(str(error))


def base(name: str = "bookworm") -> Path:
    """Return the shared root *name*: a suite, or the layer SUITE-LAYER over one."""
    reason = debian_making.missing()
    if reason:
        require(reason)
    found = debian_making.place(name)
    if not found.exists():
        pytest.fail(_unmade.get(name, f'the test needs the mark roots("{name}")'))
    return found


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str


class Root:
    """A Debian system of one test."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        cwd: str = "/",
        stdin: str = "",
    ) -> Ran:
        """Run a command inside."""
        done = subprocess.run(
            ["chroot", str(self.path), "env", "-C", cwd, *argv],
            capture_output=True, text=True, timeout=300, check=False, input=stdin,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", **(env or {})},
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"{argv}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return Ran(done.returncode, done.stdout, done.stderr)

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        """Write a file inside."""
        target = self.path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(mode)
        return target

    def cmd_run_all(self, cmd: Sequence[str], **options: Any) -> dict[str, Any]:
        """Stand in for cmd.run_all: the same command, inside."""
        more = {key: options[key] for key in ("env", "cwd", "stdin") if key in options}
        ran = self.run(*cmd, check=False, **more)
        return {"retcode": ran.code, "stdout": ran.out, "stderr": ran.err, "pid": 0}


@contextlib.contextmanager
def overlay(
    folder: Path, suite: str = "bookworm", *, entered: bool = True, packages: str = ""
) -> Iterator[Root]:
    """Yield a system of its own on top of the shared root of *suite*.

    Args:
        folder: where its own files lie.
        suite: name of the Debian release.
        entered: mount what commands need that enter it by chroot; a booted one has its own.
        packages: name of a layer of more packages.
    """
    lowers = [*([base(f"{suite}-{packages}")] if packages else []), base(suite)]
    try:
        with mounted(folder, lowers, entered=entered) as root:
            yield root
    finally:
        for name in ("root", "work", "upper"):
            debian_making.remove(folder / name)


@contextlib.contextmanager
def mounted(folder: Path, lowers: Sequence[Path], *, entered: bool) -> Iterator[Root]:
    """Mount an overlay over *lowers*, the uppermost first; its own files stay in folder/upper."""
    upper, work, merged = (folder / name for name in ("upper", "work", "root"))
    for part in (upper, work, merged):
        part.mkdir(parents=True)
    below = ":".join(map(str, lowers))
    options = f"lowerdir={below},upperdir={upper},workdir={work}"
    mounted: list[Path] = []
    try:
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], check=True)
        mounted.append(merged)
        if entered:
            subprocess.run(["mount", "-t", "proc", "proc", merged / "proc"], check=True)
            mounted.append(merged / "proc")
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", merged / "dev"], check=True)
            mounted.append(merged / "dev")
            _fill(merged / "dev")
        yield Root(merged)
    finally:
        for place in reversed(mounted):
            subprocess.run(["umount", "--lazy", place], check=False)


def _fill(dev: Path) -> None:
    """Make the usual devices; this machine's own would go with a root that is removed."""
    for name, (major, minor) in _DEVICES.items():
        os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (dev / name).chmod(0o666)
    (dev / "shm").mkdir(mode=0o1777)
    (dev / "fd").symlink_to("/proc/self/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        (dev / name).symlink_to(f"/proc/self/fd/{number}")

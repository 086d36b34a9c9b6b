"""Debian roots for tests that need a real system: made once by debootstrap, used by overlay.

A root is kept in /var/cache/catena-tests (or $CATENA_TEST_CACHE), and so is a layer of packages
over it. Each test gets an overlay of its own on top, which is thrown away. Needs root, debootstrap
and overlayfs; on CI their lack is a failure.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

MIRROR = os.environ.get("CATENA_TEST_MIRROR", "http://deb.debian.org/debian")
CACHE = Path(os.environ.get("CATENA_TEST_CACHE", "/var/cache/catena-tests"))
#: What a host needs that boots and runs an agent.
HOST = ("systemd", "systemd-sysv", "dbus", "python3", "procps")
#: What is inside the root of each suite; the tests of package and service providers use bookworm.
PACKAGES: Mapping[str, Sequence[str]] = {
    "bullseye": HOST,
    "bookworm": (*HOST, "cron", "rpm", "createrepo-c", "dnf", "zypper", "dpkg-dev"),
    "trixie": HOST,
}

#: More packages, kept as a layer over the root of a suite.
LAYERS: Mapping[str, Sequence[str]] = {"ssh": ("openssh-server", "sudo", "cron")}
#: What a new package says to its service has nobody to hear it: nothing runs here.
_QUIET = "#!/bin/sh\nexit 101\n"


def require(reason: str) -> NoReturn:
    """Skip a test for want of something on this machine; on CI, fail it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def base(suite: str = "bookworm") -> Path:
    """Return the shared root of *suite*, made if it is not there yet."""
    if os.geteuid() != 0:
        require("needs root to make and enter a Debian root")
    if not shutil.which("debootstrap"):
        require("needs debootstrap")
    CACHE.mkdir(parents=True, exist_ok=True)
    root = CACHE / suite
    # Several test processes may want it at once; one makes it.
    with (CACHE / f".{suite}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / ".complete").exists():
            shutil.rmtree(root, ignore_errors=True)
            include = f"--include={','.join(PACKAGES[suite])}"
            subprocess.run(
                ["debootstrap", "--variant=minbase", include, suite, str(root), MIRROR],
                check=True, capture_output=True, timeout=900,
            )  # fmt: skip
            (root / ".complete").touch()
    return root


def layer(name: str, suite: str) -> Path:
    """Return the shared layer *name* over the root of *suite*, made if it is not there yet."""
    lower = base(suite)
    made = CACHE / f"{suite}-{name}"
    with (CACHE / f".{suite}-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            scratch = Path(tempfile.mkdtemp(prefix=f"{suite}-{name}.", dir=CACHE))
            try:
                _install(LAYERS[name], scratch, lower)
                (scratch / "upper").rename(made)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return made


def _install(packages: Sequence[str], scratch: Path, lower: Path) -> None:
    """Install packages on top of *lower*; what is new lies in scratch/upper then."""
    with _mounted(scratch, [lower], entered=True) as root:
        root.write("/usr/sbin/policy-rc.d", _QUIET, 0o755)
        resolver = root.path / "etc/resolv.conf"
        shutil.copy("/etc/resolv.conf", resolver)
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        root.run("apt-get", "-qq", "update", env=env)
        root.run("apt-get", "-qq", "-y", "--no-install-recommends", "install", *packages, env=env)
        root.run("apt-get", "clean")
        resolver.unlink()
        (root.path / "usr/sbin/policy-rc.d").unlink()
        for path in (root.path / "etc/ssh").glob("ssh_host_*"):
            path.unlink()


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

    def run(self, *argv: str, env: Mapping[str, str] | None = None, check: bool = True) -> Ran:
        """Run a command inside."""
        done = subprocess.run(
            ["chroot", str(self.path), *argv],
            capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL,
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
        ran = self.run(*cmd, env=options.get("env"), check=False)
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
    lowers = [*([layer(packages, suite)] if packages else []), base(suite)]
    try:
        with _mounted(folder, lowers, entered=entered) as root:
            yield root
    finally:
        for name in ("work", "upper"):
            shutil.rmtree(folder / name, ignore_errors=True)


@contextlib.contextmanager
def _mounted(folder: Path, lowers: Sequence[Path], *, entered: bool) -> Iterator[Root]:
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
            subprocess.run(["mount", "--bind", "/dev", merged / "dev"], check=True)
            mounted.append(merged / "dev")
        yield Root(merged)
    finally:
        for place in reversed(mounted):
            subprocess.run(["umount", "--lazy", place], check=False)

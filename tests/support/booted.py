"""A namespace container with a booted systemd."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.debian_roots import Root, require
from tests.support.waiting import wait_until


class Booted(Root):
    """A booted system: commands enter its namespaces."""

    def __init__(self, path: Path, leader: int) -> None:
        super().__init__(path)
        self.leader = leader

    def cmd_run_all(self, cmd: Any, **options: Any) -> dict[str, Any]:
        done = subprocess.run(
            ["nsenter", "--target", str(self.leader), "--all", "--", *cmd],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            timeout=options.get("timeout") or 60,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **(options.get("env") or {})},
        )  # fmt: skip
        return {"retcode": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def init_of(nspawn: subprocess.Popen[bytes]) -> int:
    """Return the pid of the container's init; OSError, IndexError: there is none."""
    children = Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children")
    return int(children.read_text().split()[0])


def leader_of(nspawn: subprocess.Popen[bytes], log: Path) -> int:
    """Return the pid of the container's init, once systemd there answers."""

    def booted() -> int | None:
        if nspawn.poll() is not None:
            require(f"systemd-nspawn can't boot here: {log.read_text()}")
        with contextlib.suppress(OSError, IndexError):
            pid = init_of(nspawn)
            ready = subprocess.run(
                ["nsenter", "--target", str(pid), "--all", "--", "systemctl",
                 "is-system-running", "--wait"],
                capture_output=True, text=True, timeout=240, check=False,
            )  # fmt: skip
            if ready.stdout.strip() in ("running", "degraded"):
                return pid
        return None

    return int(wait_until(booted, "the boot of the container", 240))


@contextlib.contextmanager
def booted_from(root: Root, log: Path) -> Iterator[Booted]:
    """Boot *root*, whose console goes to *log*; yield it once systemd answers."""
    with log.open("wb") as console:
        nspawn = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit",
             "--private-network", "--console=pipe", f"--directory={root.path}"],
            stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
        )  # fmt: skip
        try:
            yield Booted(root.path, leader_of(nspawn, log))
        finally:
            # Its init outlives it, and all of the container with that.
            with contextlib.suppress(OSError, IndexError):
                os.kill(init_of(nspawn), signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(nspawn.pid, signal.SIGKILL)
            nspawn.wait(30)

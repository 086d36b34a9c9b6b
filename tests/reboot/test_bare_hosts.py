"""Chains across reboot(2) in a PID namespace."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet, wait_for

from tests.reboot import first_process

pytestmark = pytest.mark.reboot

NAMES = ("one", "two", "three")
REBOOTS = 2
#: RB_AUTOBOOT, by the C library: what every reboot tool calls in the end.
REBOOT = "import ctypes, os; os.sync(); ctypes.CDLL(None).reboot(0x01234567)"
#: A first process that the kernel ended because of reboot(2).
REBOOTED = -signal.SIGHUP


class BareHost:
    """A PID namespace that is started again when it has rebooted itself."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.boots = 0
        self._on = threading.Event()
        self._first: subprocess.Popen[bytes] | None = None
        self._supply: threading.Thread | None = None

    def power_on(self) -> None:
        self._on.set()
        self._supply = threading.Thread(target=self._run)
        self._supply.start()

    def _run(self) -> None:
        while self._on.is_set():
            self.boots += 1
            (self.home / "boot_id").write_text(f"{uuid.uuid4()}\n")
            log = str(self.home / "minion.log")
            self._first = subprocess.Popen(
                ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=KILL",
                 sys.executable, first_process.__file__, str(self.home / "etc/catena"), log],
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            if self._first.wait() != REBOOTED:
                return

    def power_off(self) -> None:
        self._on.clear()
        if self._first is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._first.pid, signal.SIGKILL)
        if self._supply is not None:
            self._supply.join(30)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    folder = Path(tempfile.mkdtemp(prefix="cat-"))
    minion = {"reboot_command": [sys.executable, "-c", REBOOT]}
    try:
        with Fleet(folder, {name: {} for name in NAMES}, minion=minion) as made:
            made.start_master()
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def hosts(fleet: Fleet) -> Iterator[dict[str, BareHost]]:
    made = {name: BareHost(fleet.home(name)) for name in NAMES}
    try:
        for host in made.values():
            host.power_on()
        fleet.accept_all()
        yield made
    finally:
        for host in made.values():
            host.power_off()


def test_chain_continues_after_a_real_kernel_reboot(
    fleet: Fleet, hosts: dict[str, BareHost]
) -> None:
    witness = fleet.folder / "witness"
    fleet.catena("chain", "create", "bare")
    words = [f"step{number}" for number in range(REBOOTS + 1)]
    for word in words:
        line = f"echo {word} >> {witness}"
        fleet.catena("chain", "add", "bare", "-t", "*", "--cmd", line)
        if word != words[-1]:
            fleet.catena("chain", "add", "bare", "-t", "*", "--reboot")
    fleet.catena("chain", "schedule", "bare")

    def ended() -> str:
        done = fleet.catena("chain", "show", "bare", "--out", "json", check=False)
        state: str = json.loads(done.stdout)["state"] if done.returncode == 0 else ""
        return state if state in ("done", "failed") else ""

    assert wait_for("the chain", ended, 240) == "done"
    counts = Counter(witness.read_text().split())
    assert counts == Counter({word: len(NAMES) for word in words})
    assert {host.boots for host in hosts.values()} == {REBOOTS + 1}

"""A master and simulated hosts on this machine in one folder, for the demo and tests."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import host
import yaml

from catena.client import connect
from catena.client.requests import chains, keys, minions
from catena.client.requests.chains import ChainRef
from catena.client.requests.keys import KeyList
from catena.client.requests.minions import MinionList
from catena.core.errors import CatenaError

#: Maximum seconds to wait for an event of the fleet.
PATIENCE_SECONDS = 60.0
#: Ports for servers, below the range for outgoing connections, which begins at 32768.
PORTS = range(10_000, 32_000)


class FleetError(Exception):
    """A part of the fleet did not start or failed."""


def free_ports(count: int = 3) -> int:
    """Return the first of *count* consecutive ports that are free on the loopback device.

    The ports are below those of outgoing connections, so that none is taken before its use.
    """
    for first in random.SystemRandom().sample(PORTS, 200):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise FleetError(f"no {count} ports in a row are free")


def wait_for(what: str, ready: Callable[[], Any], patience: float = PATIENCE_SECONDS) -> Any:
    """Return the first true value of *ready*.

    Raises:
        FleetError: *ready* returned no true value in time.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        value = ready()
        if value:
            return value
        time.sleep(0.02)
    raise FleetError(f"waited {patience:.0f} s for {what}")


class Fleet:
    """One master and its hosts.

    Args:
        folder: folder of all files; a short path (a unix socket's has at most 107 characters).
        minions: grains by id of the host.
        master: additional settings of the master (file_roots, pillar_roots, reactor …).
        minion: additional settings of every minion.
        pythons: Python interpreter by id of the host, or "master"; default: this one.
    """

    def __init__(
        self,
        folder: Path,
        minions: Mapping[str, Mapping[str, Any]],
        master: Mapping[str, Any] | None = None,
        minion: Mapping[str, Any] | None = None,
        pythons: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._pythons = dict(pythons or {})
        self.minions = dict(minions)
        self.port = free_ports()
        self._master: subprocess.Popen[bytes] | None = None
        self.config = folder / "master/etc/catena"
        self._write(self.config / "master", {
            "interface": "127.0.0.1",
            "port": self.port,
            "root_dir": str(folder / "master"),
            "log_file": "-",
            **(master or {}),
        })  # fmt: skip
        for name, grains in self.minions.items():
            self.add(name, {"grains": dict(grains), **(minion or {})})

    def add(self, name: str, more: Mapping[str, Any]) -> None:
        """Create the folder of one host; *more* are settings of its minion."""
        self.minions.setdefault(name, {})
        home = self.home(name)
        self._write(home / "etc/catena/minion", {
            "id": name,
            "machine_id": uuid.uuid5(uuid.NAMESPACE_DNS, name).hex,
            "master": "127.0.0.1",
            "master_port": self.port,
            "root_dir": str(home),
            "log_file": "-",
            "boot_id_file": str(home / "boot_id"),
            "reboot_command": [self.python(name), host.__file__, "reboot", str(home)],
            "ping_interval_seconds": 2,
            "recon_max_seconds": 2,
            **more,
        })  # fmt: skip

    @staticmethod
    def _write(path: Path, settings: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")

    def home(self, name: str) -> Path:
        """Return the folder of one host."""
        return self.folder / "hosts" / name

    def machine_id(self, name: str) -> str:
        """Return the machine id of one host."""
        return uuid.uuid5(uuid.NAMESPACE_DNS, name).hex

    def start_master(self) -> None:
        """Start the master and wait until it answers."""
        with (self.folder / "master.log").open("ab") as log:
            self._master = subprocess.Popen(
                [self.python("master"), "-P", "-m", "catena", "-c", str(self.config), "master"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=self.environment("master"),
            )  # fmt: skip
        wait_for("the master", lambda: self._alive() and self._answers())

    def _alive(self) -> bool:
        if self._master is not None and self._master.poll() is not None:
            log = (self.folder / "master.log").read_text(encoding="utf-8", errors="replace")
            raise FleetError(f"the master ended at once:\n{log[-3000:]}")
        return True

    def _answers(self) -> bool:
        path = self.folder / "master/run/catena/master/master.sock"
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(path))
            return True
        return False

    def stop_master(self, sign: int = signal.SIGTERM) -> None:
        """End the master with SIGTERM, or with SIGKILL for a crash."""
        if self._master is not None:
            self._master.send_signal(sign)
            try:
                self._master.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._master.kill()
                self._master.wait()
            self._master = None

    def start_minions(self, names: Sequence[str] = ()) -> None:
        """Power on hosts (all by default)."""
        for name in names or self.minions:
            # A short-lived process starts the host, so that its processes are no children of this
            # one.
            self.tell_host(name, "start")

    def tell_host(self, name: str, verb: str) -> None:
        """Power a host on ("start"), or start only its agent ("agent") as systemd does."""
        subprocess.run(
            [self.python(name), host.__file__, verb, str(self.home(name))],
            check=True, env=self.environment(name),
        )  # fmt: skip

    def python(self, name: str) -> str:
        """Return the Python interpreter of a host, or of "master"."""
        return self._pythons.get(name, sys.executable)

    def environment(self, name: str) -> Mapping[str, str]:
        """Return the environment of the daemons of a host, or of "master"."""
        return os.environ

    def accept_all(self) -> None:
        """Accept every key when all are pending, and wait until every minion is connected."""
        wanted = set(self.minions)

        def pending() -> bool:
            found = connect(config_dir=str(self.config)).request(keys.LIST, KeyList("*"))
            return wanted <= {row["id"] for rows in found.values() for row in rows}

        wait_for("the minions' keys", pending)
        self.catena("key", "accept", "--all")
        self.wait_up()

    def wait_up(self) -> None:
        """Wait until every minion is connected."""
        wait_for("the minions", lambda: self.connected() >= set(self.minions))

    # Polls make no process for each request: that would keep a core busy.

    def connected(self) -> set[str]:
        """Return the ids of the connected minions; none while the master is away."""
        rows: Sequence[Mapping[str, Any]] = ()
        with contextlib.suppress(CatenaError):
            rows = connect(config_dir=str(self.config)).request(minions.LIST, MinionList())
        return {row["id"] for row in rows if row["up"]}

    def shown(self, label: str) -> dict[str, Any]:
        """Return a chain as `catena chain show --out json` prints it.

        Raises:
            CatenaError: the chain does not exist, or the master is away.
        """
        client = connect(config_dir=str(self.config))
        found: dict[str, Any] = client.request(chains.SHOW, ChainRef(label))
        return found

    def catena(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one `catena` command as its user would.

        Raises:
            FleetError: the command failed and *check* is set.
        """
        done = subprocess.run(
            [self.python("master"), "-P", "-m", "catena", "-c", str(self.config), *words],
            capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if check and done.returncode:
            raise FleetError(f"catena {' '.join(words)}: exit {done.returncode}\n{done.stderr}")
        return done

    def close(self) -> None:
        """End every process of the fleet, by its pid."""
        self.stop_master()
        for name in self.minions:
            host.power_off(self.home(name))

    def __enter__(self) -> Fleet:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

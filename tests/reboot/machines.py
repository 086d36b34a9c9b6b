"""Hosts that really boot: namespace containers with systemd, each on a network of its own.

A machine is an overlay on a Debian root, a network namespace with one cable (a veth pair) to the
master's, and a power supply: a thread that boots it, boots it again when it asks for a reboot, and
can be cut. The network and the disk outlive the power; the boot id does not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from fleet import FleetError, wait_for

from tests.support import debian_making
from tests.support.debian_roots import Root, overlay, require

REPOSITORY = Path(__file__).parents[2]
#: Python of each Debian, for the wheels that its hosts need.
PYTHONS = {"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13"}
#: What systemd-nspawn exits with when the container has rebooted itself.
REBOOTED = 133
BOOT_SECONDS = 90.0
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
#: Makes the agent's folder importable for every Python of a host, isolated ones too.
_PTH = "/usr/lib/python3/dist-packages/catena-under-test.pth"
_COMMAND = "#!/usr/bin/python3\nfrom catena.cli.main import main\nmain()\n"


def run(*argv: str, timeout: float = 120) -> str:
    """Run a command of this machine; return what it printed.

    Raises:
        FleetError: it failed.
    """
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=timeout, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise FleetError(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Installation:
    """What the hosts of one test session have installed: catena's wheel and its dependencies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sites: dict[str, Path] = {}

    def site(self, python: str) -> Path:
        """Return the folder of packages for a version of Python, as "3.11"."""
        if python not in self._sites:
            target = self._folder / f"site-{python}"
            run(
                sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target),
                "--python-version", python, "--only-binary", ":all:", str(self._wheel()),
                timeout=300,
            )  # fmt: skip
            self._sites[python] = target
        return self._sites[python]

    def _wheel(self) -> Path:
        found = list(self._folder.glob("catena-*.whl"))
        if not found:
            run(
                sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir",
                str(self._folder), str(REPOSITORY), timeout=300,
            )  # fmt: skip
            found = list(self._folder.glob("catena-*.whl"))
        return found[0]


class Network:
    """The master's network namespace, and a cable from it to each host."""

    def __init__(self) -> None:
        self.tag = uuid.uuid4().hex[:6]
        self.master = f"catena-{self.tag}-m"
        self._spaces = [self.master]
        run("ip", "netns", "add", self.master)
        run("ip", "-n", self.master, "link", "set", "lo", "up")

    def attach(self, number: int) -> tuple[str, str]:
        """Lay the cable of host *number*; return its namespace and the master's address there."""
        space, cable = f"catena-{self.tag}-{number}", self._cable(number)
        run("ip", "netns", "add", space)
        self._spaces.append(space)
        peer = f"{cable}h"
        run("ip", "-n", self.master, "link", "add", cable, "type", "veth", "peer", "name", peer)
        run("ip", "-n", self.master, "link", "set", peer, "netns", space)
        base = f"10.93.{number}"
        run("ip", "-n", self.master, "addr", "add", f"{base}.1/30", "dev", cable)
        run("ip", "-n", space, "addr", "add", f"{base}.2/30", "dev", peer)
        for where, link in ((self.master, cable), (space, peer), (space, "lo")):
            run("ip", "-n", where, "link", "set", link, "up")
        return space, f"{base}.1"

    def set(self, number: int, state: str) -> None:
        """Pull the cable of host *number* ("down") or put it back ("up")."""
        run("ip", "-n", self.master, "link", "set", self._cable(number), state)

    def _cable(self, number: int) -> str:
        return f"c{self.tag}{number}"

    def close(self) -> None:
        """Remove everything."""
        for space in self._spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


class Machine:
    """One host: a disk, a cable, a power supply.

    Args:
        name: its minion id.
        root: its disk.
        space: network namespace of its cable.
        binds: options of systemd-nspawn for folders of this machine.
        console: file that gets what it prints.
    """

    def __init__(
        self, name: str, root: Root, space: str, binds: Sequence[str], console: Path
    ) -> None:
        self.name, self.root = name, root
        self._argv = [
            "systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit",
            f"--network-namespace-path=/run/netns/{space}", "--console=pipe",
            f"--machine={space}", f"--hostname={name}", f"--directory={root.path}", *binds,
        ]  # fmt: skip
        self.console = console
        self.boots = 0
        self._power = threading.Event()
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._supply: threading.Thread | None = None

    def power_on(self) -> None:
        """Boot it, and again whenever it asks for that, until the power is cut."""
        self._power.set()
        self._supply = threading.Thread(target=self._run, name=f"power of {self.name}")
        self._supply.start()

    def power_off(self) -> None:
        """Cut the power: every process of the host is gone at once."""
        self._power.clear()
        if self._nspawn is not None and self._nspawn.poll() is None:
            # Its init first: with it the kernel ends every process of the host.
            pids = (*_children(self._nspawn.pid), self._nspawn.pid)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            # Until then the host may still answer.
            wait_for(f"the end of {self.name}", lambda: not any(map(_is_there, pids[:-1])))
        if self._supply is not None:
            self._supply.join(30)

    def _run(self) -> None:
        while self._power.is_set():
            with self.console.open("ab") as console:
                self._nspawn = subprocess.Popen(
                    self._argv, stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                    start_new_session=True,
                )  # fmt: skip
                self.boots += 1
                code = self._nspawn.wait()
            if code != REBOOTED:
                return

    def init(self) -> int:
        """Return the process number, here, of the host's first process.

        Raises:
            FleetError: it is off.
        """
        found = _children(self._nspawn.pid) if self._nspawn is not None else []
        if not found:
            raise FleetError(f"{self.name} is off")
        return found[0]

    def check(self) -> None:
        """Complain when it could not be booted."""
        if self._supply is not None and not self._supply.is_alive() and self._power.is_set():
            text = self.console.read_text(errors="replace")
            require(f"{self.name} can't run here: {text[-2000:]}")


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(word) for word in text.split()]
    return []


class Site:
    """A master and machines of several Debians.

    Args:
        folder: where everything lies; short, for the master's socket.
        installation: what the hosts have installed.
    """

    def __init__(self, folder: Path, installation: Installation) -> None:
        self.folder = folder
        self.network = Network()
        self.machines: dict[str, Machine] = {}
        #: Those of them that have an agent.
        self.minions: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._installation = installation
        self._stack = contextlib.ExitStack()
        self._master: subprocess.Popen[bytes] | None = None
        self.config = folder / "etc"
        _write_yaml(self.config / "master", {"log_file": "-", "auto_accept": True})
        (folder / "witness").mkdir()

    def add(self, name: str, suite: str, minion: Mapping[str, Any] | None = None) -> None:
        """Make a host with the systemd unit of the package; it is off."""
        site = self._installation.site(PYTHONS[suite])
        binds = (f"--bind-ro={site}:/opt/catena", f"--bind={self.folder / 'witness'}:/witness")
        machine, address = self.plug_in(name, suite, binds)
        root = machine.root
        root.write(_PTH, "/opt/catena\n")
        root.write("/usr/bin/catena", _COMMAND, 0o755)
        unit = REPOSITORY / "packaging/systemd/catena-minion.service"
        root.write("/etc/systemd/system/catena-minion.service", unit.read_text())
        wants = root.path / "etc/systemd/system/multi-user.target.wants"
        wants.mkdir(parents=True, exist_ok=True)
        (wants / "catena-minion.service").symlink_to("/etc/systemd/system/catena-minion.service")
        settings = {
            "id": name, "master": address, "log_file": "/var/log/catena-minion.log",
            "ping_interval_seconds": 2, "recon_max_seconds": 2, **(minion or {}),
        }  # fmt: skip
        root.write("/etc/catena/minion", yaml.safe_dump(settings))
        self.minions.add(name)

    def plug_in(
        self, name: str, suite: str, binds: Sequence[str], packages: str = ""
    ) -> tuple[Machine, str]:
        """Make a host with nothing of ours, off; return it and the master's address on its cable.

        Args:
            name: of the host.
            suite: its Debian.
            binds: options of systemd-nspawn.
            packages: layer of more packages (`tests.support.debian_roots`).
        """
        number = len(self.machines) + 1
        space, address = self.network.attach(number)
        disk = overlay(self.folder / "disks" / name, suite, entered=False, packages=packages)
        root = self._stack.enter_context(disk)
        root.write("/etc/machine-id", f"{uuid.uuid4().hex}\n")
        root.write("/etc/hostname", f"{name}\n")
        machine = Machine(name, root, space, binds, self.folder / f"{name}.console")
        self._stack.callback(machine.power_off)
        self.machines[name] = machine
        self._numbers[name] = number
        return machine, address

    def cut(self, name: str) -> None:
        """Pull the cable of a host."""
        self.network.set(self._numbers[name], "down")

    def mend(self, name: str) -> None:
        """Put the cable of a host back."""
        self.network.set(self._numbers[name], "up")

    def start_master(self, *options: str) -> None:
        """Start the master in its namespace, with *options*, and wait until it answers."""
        with (self.folder / "master.log").open("ab") as log:
            self._master = subprocess.Popen(
                ["ip", "netns", "exec", self.network.master,
                 sys.executable, "-m", "catena", "-c", str(self.config), "master", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        master = self._master

        def answers() -> bool:
            if master.poll() is not None:
                raise FleetError(f"the master ended\n{self.logs()}")
            return self.catena("chain", "list", check=False).returncode == 0

        wait_for("the master", answers)

    def kill_master(self) -> None:
        """End the master as a crash does."""
        if self._master is not None:
            # `ip netns exec` becomes the master: it is one process.
            self._master.kill()
            self._master.wait()
            self._master = None

    def wait_up(self) -> None:
        """Wait until every minion is connected."""
        self.wait_for("the minions", lambda: self._up() >= self.minions, BOOT_SECONDS)

    def _up(self) -> set[str]:
        done = self.catena("run", "*", "test.ping", "--out", "json", check=False)
        if done.returncode not in (0, 1):
            return set()
        return {name for name, value in yaml.safe_load(done.stdout).items() if value is True}

    def wait_for(self, what: str, ready: Callable[[], Any], patience: float) -> Any:
        """Return the first true value of *ready*; a machine that can't boot ends the wait."""

        def look() -> Any:
            for machine in self.machines.values():
                machine.check()
            return ready()

        return wait_for(what, look, patience)

    def catena(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one `catena` command on the master."""
        done = subprocess.run(
            [sys.executable, "-m", "catena", "-c", str(self.config), *words],
            capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if check and done.returncode:
            raise FleetError(f"catena {' '.join(words)}: exit {done.returncode}\n{done.stderr}")
        return done

    def logs(self) -> str:
        """Return the ends of every log, for a failed test."""
        found = [self.folder / "master.log"]
        for machine in self.machines.values():
            found += [machine.console, machine.root.path / "var/log/catena-minion.log"]
        parts = []
        for path in found:
            with contextlib.suppress(OSError):
                parts.append(f"--- {path}\n{path.read_text(errors='replace')[-6000:]}")
        return "\n".join(parts)

    def close(self) -> None:
        """End every process and remove every mount and namespace."""
        self.kill_master()
        self._stack.close()
        self.network.close()
        debian_making.remove(self.folder)


def _write_yaml(path: Path, data: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(dict(data)), encoding="utf-8")


@contextlib.contextmanager
def site(folder: Path, installation: Installation) -> Iterator[Site]:
    """Yield an empty site."""
    made = Site(folder, installation)
    try:
        yield made
    finally:
        made.close()

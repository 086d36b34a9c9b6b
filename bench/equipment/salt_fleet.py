"""A Salt master and its minions, with its defaults."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from pathlib import Path

from bench.equipment.clients import LongClient
from bench.equipment.fleet import Daemon, Fleet
from bench.lab import Lab
from bench.measure import Ran, run
from bench.surroundings import environment, free_ports


class SaltFleet(Fleet):
    """A Salt master and minions with defaults, except network and GPU detection."""

    def __init__(self, lab: Lab, minions: int) -> None:
        self.bin = lab.tools.command("salt", "salt-call").parent
        self.port = free_ports(2)
        super().__init__(lab, "s", minions)

    @property
    def config(self) -> Path:
        """The master's configuration folder."""
        return self.folder / "master"

    def _start_master(self) -> Daemon:
        self.write(self.config / "master", {
            "interface": "127.0.0.1",
            "publish_port": self.port,
            "ret_port": self.port + 1,
            "auto_accept": True,
            "file_roots": {"base": [str(self.states)]},
            "pillar_roots": {"base": [str(self.pillar)]},
            "reactor": [{self.react_tag: [str(self.reaction)]}],
            "enable_gpu_grains": False,
            "enable_fqdns_grains": False,
            **_places(self.config),
        })  # fmt: skip
        words: list[str | Path] = [self.bin / "salt-master", "-c", self.config]
        daemon = Daemon(words, self.mark("master"), self.folder / "master.log")
        return daemon.until("the Salt master", self._listens)

    def _listens(self) -> bool:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.connect(("127.0.0.1", self.port + 1))
            return True
        return False

    def start_minion(self, name: str) -> Daemon:
        """Start one minion."""
        home = self.folder / name
        self.write(home / "minion", {
            "id": name,
            "master": "127.0.0.1",
            "publish_port": self.port,
            "master_port": self.port + 1,
            "enable_gpu_grains": False,
            "enable_fqdns_grains": False,
            "mine_enabled": False,
            **_places(home),
        })  # fmt: skip
        return Daemon(
            [self.bin / "salt-minion", "-c", home], self.mark(name), self.folder / f"{name}.log"
        )

    def cli(self, *words: str, check: bool = True) -> Ran:
        """Run `salt WORDS`."""
        return self.salt("salt", *words, check=check)

    def salt(self, command: str, *words: str, check: bool = True) -> Ran:
        """Run a command of Salt on the master: salt("salt-run", "manage.up")."""
        return run([self.bin / command, "-c", self.config, *words], environment(), check=check)

    def up(self) -> set[str]:
        """Return the minions that answer a ping."""
        accepted = self.config / "pki/minions"
        if not accepted.is_dir() or len(list(accepted.iterdir())) < len(self.minions):
            time.sleep(0.2)
            return set()
        said = self.cli("*", "test.ping", "--out", "json", "--static", "-t", "10", check=False).out
        with contextlib.suppress(ValueError):
            return {name for name, value in json.loads(said).items() if value is True}
        return set()

    def _start_client(self) -> LongClient:
        return LongClient(self.lab.tools.python("salt"), "salt_client.py", self.config)


def _places(home: Path) -> dict[str, str]:
    """Return the settings that keep all that a daemon of Salt writes below *home*."""
    return {
        "root_dir": str(home),
        "pki_dir": str(home / "pki"),
        "cachedir": str(home / "cache"),
        "sock_dir": str(home / "run"),
        "pidfile": str(home / "daemon.pid"),
        "log_file": str(home / "log"),
        "key_logfile": str(home / "key.log"),
    }

"""A catena master and its minions, started with the installed commands."""

from __future__ import annotations

import contextlib
import json
import socket
import uuid
from pathlib import Path

from bench.equipment.clients import LongClient
from bench.equipment.fleet import Daemon, Fleet
from bench.lab import Lab
from bench.measure import Ran, run
from bench.surroundings import environment, free_ports


class CatenaFleet(Fleet):
    """A catena master and minions, started with the installed commands."""

    def __init__(self, lab: Lab, minions: int) -> None:
        self.command = lab.tools.command("catena", "catena")
        self.port = free_ports(3)
        super().__init__(lab, "c", minions)

    @property
    def config(self) -> Path:
        """The master's configuration folder."""
        return self.folder / "master/etc/catena"

    @property
    def socket(self) -> Path:
        """The unix socket that local clients use."""
        return self.folder / "master/run/catena/master/master.sock"

    def _start_master(self) -> Daemon:
        self.write(self.config / "master", {
            "interface": "127.0.0.1",
            "port": self.port,
            "root_dir": str(self.folder / "master"),
            "log_file": "-",
            "auto_accept": True,
            "file_roots": {"base": [str(self.states)]},
            "pillar_roots": {"base": [str(self.pillar)]},
            "reactor": [{self.react_tag: [str(self.reaction)]}],
        })  # fmt: skip
        words: list[str | Path] = [self.command, "-c", self.config, "master"]
        daemon = Daemon(words, self.mark("master"), self.folder / "master.log")
        return daemon.until("the catena master", self._answers)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(self.socket))
            return True
        return False

    def start_minion(self, name: str) -> Daemon:
        """Start one minion; its identity depends only on its name."""
        home = self.folder / name
        self.write(home / "etc/catena/minion", {
            "id": name,
            "machine_id": uuid.uuid5(uuid.NAMESPACE_DNS, name).hex,
            "master": "127.0.0.1",
            "master_port": self.port,
            "root_dir": str(home),
            "log_file": "-",
        })  # fmt: skip
        return Daemon(
            [self.command, "-c", home / "etc/catena", "minion"],
            self.mark(name), self.folder / f"{name}.log",
        )  # fmt: skip

    def cli(self, *words: str, check: bool = True) -> Ran:
        """Run `catena run WORDS`."""
        return self.catena("run", *words, check=check)

    def catena(self, *words: str, check: bool = True) -> Ran:
        """Run any `catena` command on the master."""
        return run([self.command, "-c", self.config, *words], environment(), check=check)

    def up(self) -> set[str]:
        """Return the minions that are connected."""
        rows = json.loads(self.catena("minion", "list", "--out", "json").out)
        return {row["id"] for row in rows if row["up"]}

    def _start_client(self) -> LongClient:
        return LongClient(self.lab.tools.python("catena"), "catena_client.py", self.socket)

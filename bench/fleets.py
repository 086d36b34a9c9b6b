"""Fixtures: a master and its minions on this machine, of catena and of Salt."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from bench.clients import LongClient
from bench.lab import Lab, environment, free_ports, wait_for
from bench.measure import Ran, Tree, memory, run
from bench.row import BenchError

#: How long a fleet of fifty may take to come up on two cores.
PATIENCE_SECONDS = 240.0


class Daemon:
    """One daemon and everything that it starts.

    Args:
        words: its command line.
        mark: unique in this run; marks its processes.
        log: file for what it says.
    """

    def __init__(self, words: list[str | Path], mark: str, log: Path) -> None:
        self.log = log
        self.tree = Tree(mark)
        with log.open("ab") as stream:
            self._child = subprocess.Popen(
                [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=stream,
                stderr=stream, env=environment(mark), start_new_session=True,
            )  # fmt: skip

    def check(self) -> bool:
        """Return True.

        Raises:
            BenchError: the daemon has ended.
        """
        if self._child.poll() is not None:
            said = self.log.read_text(encoding="utf-8", errors="replace")[-300:]
            raise BenchError(f"{self._child.args!r} ended at once: {said}")
        return True

    def private(self) -> float:
        """Return the memory of its main process that no other shares, MB.

        Who else runs, or which worker lives just now, does not change it.
        """
        return memory([self._child.pid], "Private_Clean", "Private_Dirty")

    def stop(self) -> None:
        """Ask it to end."""
        self._child.terminate()

    def close(self) -> None:
        """End the whole tree, as its user would: what it started is its own to end."""
        self.stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(20)
        self.tree.end()
        self._child.wait()


#: What the master does about an event `Fleet.react_tag` with a `path`.
REACTION = """\
touch:
  local.file.touch:
    - tgt: '*'
    - arg:
      - {{ data['path'] }}
"""


class Fleet(ABC):
    """What both fleets have in common.

    Attributes:
        react_tag: tag of events whose `path` the minions make.
        states: the folder that the master serves as file_roots.
        pillar: the same for pillar_roots.
        master: its daemon.
        minions: id -> its daemon.
        tree: all processes of all of them.
    """

    react_tag = "bench/react"

    def __init__(self, lab: Lab, kind: str, minions: int) -> None:
        self.lab = lab
        self.folder = lab.folder(f"{kind}{minions}")
        self.states, self.pillar = self.folder / "states", self.folder / "pillar"
        for path in (self.states, self.pillar):
            path.mkdir()
        self.reaction = self.folder / "reaction.sls"
        self.reaction.write_text(REACTION, encoding="utf-8")
        self.tree = Tree(str(self.folder))
        self.minions: dict[str, Daemon] = {}
        self._client: LongClient | None = None
        try:
            self.master = self._start_master()
            self.more(minions)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _start_master(self) -> Daemon: ...

    @abstractmethod
    def start_minion(self, name: str) -> Daemon:
        """Start one minion, without waiting for it."""

    @abstractmethod
    def cli(self, *words: str, check: bool = True) -> Ran:
        """Run the fleet's command line as its user would: cli("*", "test.ping")."""

    @abstractmethod
    def up(self) -> set[str]:
        """Return the minions that the master says are there."""

    @property
    def client(self) -> LongClient:
        """A process that keeps one client of the master; it ends with the fleet."""
        if self._client is None or not self._client.lives:
            self._client = self._start_client()
        return self._client

    @contextlib.contextmanager
    def another_client(self) -> Iterator[LongClient]:
        """Yield a kept client beside the first; it ends with the context."""
        client = self._start_client()
        try:
            yield client
        finally:
            client.close()

    @abstractmethod
    def _start_client(self) -> LongClient: ...

    def restart(self, name: str) -> float:
        """End a minion and start it anew; return the seconds until it had answered a ping.

        It is asked when its start event is there.
        """
        self.minions[name].close()
        event = self._start_heard(name)
        answer = self.client.ask("test.ping", target=name)
        if answer.minions != 1:
            raise BenchError(f"{name} started and does not answer")
        return event + sum(answer.seconds)

    def restart_silently(self, name: str) -> Daemon:
        """End a minion and start it anew, without any job; return it when its event came."""
        self.minions[name].close()
        self._start_heard(name)
        return self.minions[name]

    def _start_heard(self, name: str) -> float:
        self.client.listen(f"salt/minion/{name}/start")
        begun = time.monotonic()
        self.minions[name] = self.start_minion(name)
        return self.client.heard() - begun

    def more(self, count: int) -> None:
        """Start so many minions more and wait until all are up."""
        first = len(self.minions)
        for number in range(first, first + count):
            name = f"m{number:03d}"
            self.minions[name] = self.start_minion(name)
        wait_for(f"{len(self.minions)} minions", self._all_up, PATIENCE_SECONDS)

    def _all_up(self) -> bool:
        return all(d.check() for d in self.minions.values()) and self.up() >= set(self.minions)

    def cpu(self) -> float:
        """Return the CPU seconds of the master and all minions so far."""
        return self.tree.cpu()

    def mark(self, name: str) -> str:
        """Return the mark of a daemon of this fleet."""
        return str(self.folder / name)

    def close(self) -> None:
        """End every process of the fleet."""
        if self._client is not None:
            self._client.close()
        # The minions first: those of Salt wait long for a master that is not there.
        for daemon in self.minions.values():
            daemon.stop()
        self.minions.clear()
        self.tree.end()

    @staticmethod
    def write(path: Path, settings: Mapping[str, Any]) -> None:
        """Write a configuration file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")


class CatenaFleet(Fleet):
    """A catena master and minions, by the installed commands."""

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
        daemon = Daemon(
            [self.command, "-c", self.config, "master"],
            self.mark("master"), self.folder / "master.log",
        )  # fmt: skip
        try:
            wait_for("the catena master", lambda: daemon.check() and self._answers())
        except BenchError:
            daemon.close()
            raise
        return daemon

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


class SaltFleet(Fleet):
    """A Salt master and minions; defaults but for what asks the network or needs a GPU."""

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
        daemon = Daemon(
            [self.bin / "salt-master", "-c", self.config],
            self.mark("master"), self.folder / "master.log",
        )  # fmt: skip
        try:
            wait_for("the Salt master", lambda: daemon.check() and self._listens())
        except BenchError:
            daemon.close()
            raise
        return daemon

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

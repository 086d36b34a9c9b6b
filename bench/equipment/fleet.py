"""A master and its minions on this machine, of catena or Salt."""

from __future__ import annotations

import contextlib
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from bench.equipment.clients import LongClient
from bench.errors import BenchError
from bench.lab import Lab
from bench.measure import Ran, Tree, memory
from bench.surroundings import service_environment, wait_for

#: Maximum seconds for the start of a fleet of fifty on two cores.
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
                stderr=stream, env=service_environment(mark), start_new_session=True,
            )  # fmt: skip
        self.tree.take(self._child.pid)

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
        """Send SIGTERM."""
        self._child.terminate()

    def until(self, what: str, ready: Callable[[], object]) -> Daemon:
        """Wait until the daemon runs and *ready* returns True; otherwise end it.

        Raises:
            BenchError: it ended, or took too long.
        """
        try:
            wait_for(what, lambda: self.check() and ready())
        except BenchError:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop the daemon, which ends its own children."""
        self.stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(20)
        self.tree.end()
        self._child.wait()


#: The reaction to an event `Fleet.react_tag` with a `path`.
REACTION = """\
touch:
  local.file.touch:
    - tgt: '*'
    - arg:
      - {{ data['path'] }}
"""


class Fleet(ABC):
    """Base class of both fleets.

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
        """Run the fleet's command: cli("*", "test.ping")."""

    @abstractmethod
    def up(self) -> set[str]:
        """Return the minions that the master says are there."""

    @property
    def client(self) -> LongClient:
        """The process of a persistent client, which ends with the fleet."""
        if self._client is None or not self._client.lives:
            self._client = self._start_client()
        return self._client

    @contextlib.contextmanager
    def another_client(self) -> Iterator[LongClient]:
        """Yield an additional persistent client, which ends with the context."""
        client = self._start_client()
        try:
            yield client
        finally:
            client.close()

    @abstractmethod
    def _start_client(self) -> LongClient: ...

    def restart(self, name: str) -> float:
        """Restart a minion; return the seconds until it has answered a ping.

        The ping is sent after the start event.
        """
        self.minions[name].close()
        event = self._start_heard(name)
        answer = self.client.ask("test.ping", target=name)
        if answer.minions != 1:
            raise BenchError(f"{name} started and does not answer")
        return event + sum(answer.seconds)

    def restart_silently(self, name: str) -> Daemon:
        """Restart a minion without a job; return it after its start event."""
        self.minions[name].close()
        self._start_heard(name)
        return self.minions[name]

    def _start_heard(self, name: str) -> float:
        self.client.listen(f"salt/minion/{name}/start")
        begun = time.monotonic()
        self.minions[name] = self.start_minion(name)
        return self.client.heard() - begun

    def more(self, count: int) -> None:
        """Start additional minions and wait until all are connected."""
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
        # Minions first, because Salt's minions wait long for a missing master.
        for daemon in self.minions.values():
            daemon.stop()
        self.minions.clear()
        self.tree.end()

    @staticmethod
    def write(path: Path, settings: Mapping[str, Any]) -> None:
        """Write a configuration file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")

"""A master of its own with a swarm: what the rows of throughput, growth and the soak run on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.errors import BenchError
from bench.measure import MARK, Tree
from bench.surroundings import free_ports
from bench.swarm.population import Member, accept, make
from bench.swarm.swarm import Swarm
from catena.client.connection import MasterClient
from catena.client.requests import jobs, runners
from catena.client.requests.jobs import RunJob
from catena.transport.keys import load_or_create

START_SECONDS = 60.0
#: Room for all events that one simulated minion fires: what is measured is the master.
SETTINGS: Mapping[str, Any] = {"events_per_second": 100000, "interface": "127.0.0.1"}


class Station:
    """A running master, its client, and simulated minions. Use it as a context manager.

    Args:
        minions: how many are accepted; they connect with `connect`.
        settings: of the master, beside SETTINGS.
        command: how the master is started, for profilers; None: as installed.
        before: called with the path of the database before the master starts.
    """

    def __init__(
        self,
        minions: int,
        settings: Mapping[str, Any] | None = None,
        command: list[str] | None = None,
        before: Callable[[Path], None] | None = None,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="catena-swarm-")
        self.folder = Path(self._temporary.name)
        self.swarm: Swarm | None = None
        mark = uuid.uuid4().hex
        self._env = {**os.environ, MARK: mark}
        #: The master and its workers (the swarm is not part of it).
        self.tree = Tree(mark)
        self.members: list[Member] = make(minions)
        self.port = free_ports(3)
        text = {**SETTINGS, **(settings or {}), "port": self.port}
        (self.folder / "master").write_text(json.dumps(text), encoding="utf-8")
        state = self.folder / "state" / "master"
        self.database = state / "lib" / "master.db"
        accept(f"sqlite:///{self.database}", self.members)
        if before is not None:
            before(self.database)
        self._key = load_or_create(state / "pki").public
        words = command or [str(Path(sys.executable).parent / "catena")]
        log = (self.folder / "log").open("wb")
        self.process = subprocess.Popen(
            [*words, "-c", str(self.folder), "master"], env=self._env, stdout=log, stderr=log
        )
        self.client = MasterClient(state / "run" / "master.sock", timeout=300.0)
        self._await_start()

    def _await_start(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                self.client.request(runners.CALL, _runner("manage.up"))
            except Exception:  # noqa: BLE001  # not up yet, however that shows
                time.sleep(0.1)
            else:
                return
        raise BenchError(f"the master did not start: {(self.folder / 'log').read_text()[-500:]}")

    def __enter__(self) -> Station:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def connect(self, count: int, processes: int = 2, return_bytes: int = 3000) -> Swarm:
        """Let the first *count* minions connect, and wait for them."""
        if self.swarm is not None:
            self.swarm.stop()
        self.swarm = Swarm(
            self.folder, self.members[:count], f"tcp://127.0.0.1:{self.port}", self._key,
            processes, return_bytes,
        )  # fmt: skip
        self.swarm.wait_connected()
        return self.swarm

    def job(self, fun: str, *args: Any, tgt: str = "*") -> float:
        """Run a job, follow it until every minion has returned; return the seconds."""
        began = time.monotonic()
        ended = 0
        request = RunJob(tgt=tgt, fun=fun, args=args, follow=True)
        expected = None
        for item in self.client.stream(jobs.RUN, request, silence=60.0):
            if item["type"] == "new":
                expected = len(item["minions"])
            ended += item["type"] == "return"
            if ended == expected:
                return time.monotonic() - began
        raise BenchError(f"{fun}: {ended} of {expected} returned")

    def close(self) -> None:
        """End it (a fixture of a lab)."""
        self.stop()

    def cpu(self) -> float:
        """Return the CPU seconds of the master and its workers so far."""
        return self.tree.exact_cpu()

    def stop(self) -> None:
        """End swarm and master."""
        if self.swarm is not None:
            self.swarm.stop()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._temporary.cleanup()


def _runner(fun: str) -> Any:
    from catena.client.requests.runners import RunnerCall

    return RunnerCall(fun)

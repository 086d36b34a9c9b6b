"""The crews of a swarm, seen from the process that measures."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.swarm.crew import Config
from bench.swarm.population import Member, save

#: How long a swarm may take for anything.
PATIENCE_SECONDS = 300.0


class Swarm:
    """Simulated minions in a few processes.

    Args:
        folder: for its files.
        members: whom it plays; their keys are accepted.
        endpoint: the master's control socket.
        server_key: the master's public key.
        processes: how many crews share the work.
        return_bytes: size of what an ordinary job returns.
        env: environment of the crews.
    """

    def __init__(
        self,
        folder: Path,
        members: Sequence[Member],
        endpoint: str,
        server_key: str,
        processes: int = 2,
        return_bytes: int = 3000,
        env: Mapping[str, str] | None = None,
    ) -> None:
        population = folder / "population.json"
        save(members, population)
        share = -(-len(members) // processes)
        self.size = len(members)
        #: What crews said unasked, newest last.
        self.failures: deque[dict[str, Any]] = deque(maxlen=100)
        self._crews: list[subprocess.Popen[bytes]] = []
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        for first in range(0, len(members), share):
            count = min(share, len(members) - first)
            config = Config(str(population), first, count, endpoint, server_key, return_bytes)
            path = folder / f"crew{first}.json"
            path.write_text(json.dumps(asdict(config)), encoding="utf-8")
            self._start(path, env)

    def _start(self, config: Path, env: Mapping[str, str] | None) -> None:
        crew = subprocess.Popen(
            [sys.executable, "-m", "bench.swarm.crew", str(config)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(env or os.environ),
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
        self._crews.append(crew)
        threading.Thread(target=self._listen, args=(crew,), daemon=True).start()

    def _listen(self, crew: subprocess.Popen[bytes]) -> None:
        assert crew.stdout is not None
        for line in crew.stdout:
            self._said.put(json.loads(line))
        self._said.put({"said": "ended"})

    def wait_connected(self) -> float:
        """Wait until every minion was welcomed; return the seconds that it took."""
        began = time.monotonic()
        self._wait("connected", len(self._crews))
        return time.monotonic() - began

    def fire(self, minions: int, each: int, window: int, size: int = 100) -> dict[str, Any]:
        """Have the first *minions* fire *each* events; return events, seconds, median, p99.

        Args:
            minions: how many, all of the first crew.
            each: events of each minion.
            window: events of one minion that may be unacknowledged at a time.
            size: bytes of text in an event.
        """
        self._tell(0, {"do": "fire", "minions": minions, "each": each, "window": window,
                       "bytes": size})  # fmt: skip
        return self._wait("fire", 1)[0]

    def reboot(self, minions: int, first: int = 0) -> list[float]:
        """Reboot *minions* of the first crew, from its minion *first* on; return for each the
        seconds from its greeting until it was asked to resume.
        """
        self._tell(0, {"do": "reboot", "minions": minions, "first": first})
        seconds: list[float] = self._wait("reboot", 1)[0]["seconds"]
        return seconds

    def beat(self, times: int) -> None:
        """Let every minion send so many heartbeats, a few in each second, and wait for it."""
        for number in range(len(self._crews)):
            self._tell(number, {"do": "beat", "times": times})
        self._wait("beaten", len(self._crews))

    def watch(self, fun: str) -> None:
        """Have the first crew tell of every order of *fun*, for `next_order`."""
        self._tell(0, {"do": "watch", "fun": fun})
        self._wait("watching", 1)

    def next_order(self) -> float:
        """Return when the next order of the watched function arrived, monotonic seconds."""
        return float(self._wait("order", 1)[0]["at"])

    def stats(self) -> dict[str, int]:
        """Return what the crews counted: `up`, and messages by their names."""
        for number in range(len(self._crews)):
            self._tell(number, {"do": "stats"})
        total: dict[str, int] = {}
        for said in self._wait("stats", len(self._crews)):
            for name, count in said.items():
                if name != "said":
                    total[name] = total.get(name, 0) + count
        return total

    def stop(self) -> None:
        """End the crews."""
        for crew in self._crews:
            assert crew.stdin is not None
            crew.stdin.close()
        for crew in self._crews:
            try:
                crew.wait(10)
            except subprocess.TimeoutExpired:
                crew.kill()
                crew.wait()

    def _tell(self, number: int, command: dict[str, Any]) -> None:
        stdin = self._crews[number].stdin
        assert stdin is not None
        stdin.write(json.dumps(command).encode() + b"\n")
        stdin.flush()

    def _wait(self, what: str, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(found) < count:
            try:
                said = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise BenchError(f"the swarm did not say {what!r} in time") from None
            if said["said"] == "ended":
                raise BenchError("a crew of the swarm ended")
            if said["said"] == "failure":
                self.failures.append(said)
            elif said["said"] == what:
                found.append(said)
        return found

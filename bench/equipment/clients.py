"""Persistent clients of a master, each in its own process, and the requests to them."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.surroundings import environment


@dataclass(frozen=True)
class Answers:
    """The results of consecutive calls."""

    #: Seconds of each call, from the request to the last answer of all minions.
    seconds: list[float]
    #: How many minions answered the last call.
    minions: int
    #: CPU seconds of the client alone.
    cpu: float
    #: An unexpected answer of a minion in the last call, or "".
    fault: str = ""


class LongClient:
    """A process that runs one of the scripts in bench/kept and keeps its client.

    It reads a JSON line per request and writes one per answer.

    Args:
        python: the interpreter that has the client's library.
        script: name of the script.
        where: what the script needs to find the master.
    """

    def __init__(self, python: Path, script: str, where: Path) -> None:
        self._child = subprocess.Popen(
            [str(python), str(Path(__file__).parents[1] / "kept" / script), str(where)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(), text=True, start_new_session=True,
        )  # fmt: skip

    def ask(self, function: str, *args: Any, target: str = "*", times: int = 1) -> Answers:
        """Call *function* on minions several times in sequence.

        Raises:
            BenchError: the client ended instead.
        """
        self._write({"target": target, "function": function, "args": args, "times": times})
        return Answers(**json.loads(self._line()))

    def listen(self, tag: str) -> None:
        """Start to listen for the next event with a tag; `heard` waits for it."""
        self._write({"tag": tag})
        self._line()

    def heard(self) -> float:
        """Wait for the event; return the monotonic time of its arrival."""
        return float(json.loads(self._line())["heard"])

    def fire(self, tag: str, data: Mapping[str, Any]) -> float:
        """Send an event on the master's bus; return the monotonic time just before."""
        self._write({"fire": tag, "data": data})
        return float(json.loads(self._line())["fired"])

    def _write(self, question: object) -> None:
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(json.dumps(question) + "\n")
            self._child.stdin.flush()

    def _line(self) -> str:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            _, said = self._child.communicate()
            raise BenchError(f"the client ended with {self._child.returncode}: {said[-300:]}")
        return line

    @property
    def lives(self) -> bool:
        """Whether the process accepts requests; after an error it has ended."""
        return self._child.poll() is None

    def close(self) -> None:
        """End the process."""
        if self.lives:
            self._child.kill()
            self._child.communicate()

"""Protocol between benchmark and persistent client: JSON lines. Runs in each tool's Python."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TextIO


class Client(Protocol):
    """The interface of each tool's client script."""

    def call(self, target: str, function: str, args: Sequence[Any]) -> tuple[int, str]:
        """Run *function*; return how many minions answered as expected, and another answer."""

    def hear(self, tag: str) -> float:
        """Return the monotonic time at which the next event of that tag came."""

    def fire(self, tag: str, data: Mapping[str, Any]) -> None:
        """Send an event on the master's bus."""


def serve(client: Client, answers: TextIO) -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "tag" in asked:
            print("listening", file=answers, flush=True)
            heard = client.hear(asked["tag"])
            found: dict[str, Any] = {"heard": heard}
        elif "fire" in asked:
            begun = time.monotonic()
            client.fire(asked["fire"], asked["data"])
            found = {"fired": begun}
        else:
            found = _called(client, **asked)
        print(json.dumps(found), file=answers, flush=True)


def _called(
    client: Client, target: str, function: str, args: Sequence[Any], times: int
) -> dict[str, Any]:
    seconds, minions, fault, before = [], 0, "", time.process_time()
    for _ in range(times):
        begun = time.perf_counter()
        minions, fault = client.call(target, function, args)
        seconds.append(time.perf_counter() - begun)
    spent = time.process_time() - before
    return {"seconds": seconds, "minions": minions, "cpu": spent, "fault": fault[:300]}

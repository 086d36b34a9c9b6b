"""A persistent client of a catena master, run by bench.equipment.clients with its socket."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from protocol import serve

from catena.client.connection import MasterClient
from catena.client.follow import JobFollower
from catena.client.requests import events, jobs
from catena.client.requests.events import EventSend, EventWatch
from catena.client.requests.jobs import RunJob


class Catena:
    """The client and what the benchmark does with it."""

    def __init__(self, client: MasterClient) -> None:
        self._client = client

    def call(self, target: str, function: str, args: Sequence[Any]) -> tuple[int, str]:
        """Run *function*; return how many minions answered as expected, and another answer."""
        follower = JobFollower()
        request = RunJob(
            tgt=target, tgt_type="glob", fun=function, args=tuple(args), kwargs={}, follow=True
        )
        for item in self._client.stream(jobs.RUN, request, 60.0):
            follower.feed(item)
            if follower.finished:
                break
        failed = list(follower.failed())
        fault = str(follower.returns.get(failed[0])) if failed else ""
        return len(follower.returns) - len(failed), fault

    def hear(self, tag: str) -> float:
        """Return the monotonic time at which the next event of that tag came."""
        for item in self._client.stream(events.WATCH, EventWatch(tag), 60.0):
            if isinstance(item, dict) and item.get("tag") == tag:
                return time.monotonic()
        raise SystemExit(f"no event {tag}")

    def fire(self, tag: str, data: Mapping[str, Any]) -> None:
        """Send an event on the master's bus."""
        self._client.request(events.SEND, EventSend(tag, dict(data)))


if __name__ == "__main__":
    with MasterClient(Path(sys.argv[1])) as client:
        serve(Catena(client), sys.stdout)

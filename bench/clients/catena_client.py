"""A kept client of a catena master: run by bench.clients with the path of the master's socket."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from catena.client.connection import MasterClient
from catena.client.follow import JobFollower
from catena.client.requests import RunJob


def call(client: MasterClient, function: str, args: list[Any]) -> int:
    """Run *function* on all minions; return how many answered that all is well."""
    follower = JobFollower()
    request = RunJob(
        tgt="*", tgt_type="glob", fun=function, args=tuple(args), kwargs={}, follow=True
    )
    for item in client.stream("job.run", request, 60.0):
        follower.feed(item)
        if follower.finished:
            break
    return len(follower.returns) - len(follower.failed())


def main() -> None:
    """Answer requests until the input ends."""
    client = MasterClient(Path(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        seconds, minions, before = [], 0, time.process_time()
        for _ in range(asked["times"]):
            begun = time.perf_counter()
            minions = call(client, asked["function"], asked["args"])
            seconds.append(time.perf_counter() - begun)
        cpu = time.process_time() - before
        print(json.dumps({"seconds": seconds, "minions": minions, "cpu": cpu}), flush=True)


if __name__ == "__main__":
    main()

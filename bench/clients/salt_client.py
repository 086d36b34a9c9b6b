"""A kept LocalClient of a Salt master: run by bench.clients with its configuration folder."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import salt.client


def main() -> None:
    """Answer requests until the input ends."""
    # What Salt's library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    client = salt.client.LocalClient(str(Path(sys.argv[1], "master")))
    for line in sys.stdin:
        asked = json.loads(line)
        seconds, minions, before = [], 0, time.process_time()
        for _ in range(asked["times"]):
            begun = time.perf_counter()
            found = client.cmd("*", asked["function"], asked["args"], full_return=True, timeout=60)
            seconds.append(time.perf_counter() - begun)
            minions = sum(1 for ret in found.values() if ret and not ret.get("retcode", 1))
        cpu = time.process_time() - before
        print(
            json.dumps({"seconds": seconds, "minions": minions, "cpu": cpu}),
            file=answers, flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()

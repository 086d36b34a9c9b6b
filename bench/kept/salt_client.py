"""A persistent LocalClient of Salt, run by bench.equipment.clients."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import salt.client
import salt.utils.event
from protocol import serve

#: Seconds that the client waits for a minion. After that it asks whether the job still runs and
#: gives up without an answer within ten seconds, which can happen on a busy machine.
PATIENCE_SECONDS = 300


class Salt:
    """The client and what the benchmark does with it."""

    def __init__(self, folder: str) -> None:
        self._client = salt.client.LocalClient(str(Path(folder, "master")))
        self._bus = salt.utils.event.get_event("master", opts=self._client.opts, listen=True)

    def call(self, target: str, function: str, args: Sequence[Any]) -> tuple[int, str]:
        """Run *function*; return how many minions answered as expected, and another answer."""
        found = self._client.cmd(
            target, function, args, full_return=True, timeout=PATIENCE_SECONDS
        )
        bad = [str(ret) for ret in found.values() if not ret or ret.get("retcode", 1)]
        return len(found) - len(bad), "".join(bad[:1])

    def hear(self, tag: str) -> float:
        """Return the monotonic time at which the next event of that tag came."""
        if self._bus.get_event(wait=60, tag=tag, match_type="startswith") is None:
            raise SystemExit(f"no event {tag}")
        return time.monotonic()

    def fire(self, tag: str, data: Mapping[str, Any]) -> None:
        """Send an event on the master's bus."""
        self._bus.fire_event(dict(data), tag)


if __name__ == "__main__":
    # Output of Salt's library must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(Salt(sys.argv[1]), answers)

"""Rows of fifty minions as real processes: latency, and memory of the master."""

from __future__ import annotations

import time

from bench.equipment import shared
from bench.equipment.fleet import Fleet
from bench.equipment.shared import on_both
from bench.errors import BenchError
from bench.lab import Lab
from bench.row import Limit, Row, Sample, Times

MINIONS = 50
#: Number of additional minions, for the memory of each.
MORE = 50
#: Number of consecutive jobs, for returns per second.
JOBS = 5
#: Number of events that a master keeps in memory.
EVENTS_KEPT = 4096
#: Seconds before the memory of a busy master is measured.
SETTLE_SECONDS = 3.0


def ping(fleet: Fleet) -> Sample:
    """Seconds of a ping to all fifty minions from a persistent client."""
    seconds, cpu = _call(fleet, 1, "test.ping")
    return Sample(seconds, cpu)


def returns(fleet: Fleet) -> Sample:
    """Returns per second of `cmd.run true`."""
    _call(fleet, 1, "cmd.run", "true")  # warm up: the first job of a minion starts processes
    seconds, cpu = _call(fleet, JOBS, "cmd.run", "true")
    return Sample(JOBS * MINIONS / seconds, cpu)


def _call(fleet: Fleet, times: int, function: str, *args: str) -> tuple[float, float]:
    """Return wall and CPU seconds of calls, one after the other."""
    before = fleet.cpu()
    answers = fleet.client.ask(function, *args, times=times)
    if answers.minions != len(fleet.minions):
        raise BenchError(f"{answers.minions} of {len(fleet.minions)} minions answered")
    return sum(answers.seconds), answers.cpu + fleet.cpu() - before


def memory(fleet: Fleet) -> Sample:
    """PSS of the master with fifty minions."""
    time.sleep(SETTLE_SECONDS)
    return Sample(fleet.master.tree.pss())


def extra_catena(lab: Lab) -> Sample:
    """The master's memory per additional minion, in KB.

    Memory with a limit (the newest events, SQLite's pages) is filled before.
    """
    fleet = shared.catena(lab, MINIONS)
    _call(fleet, EVENTS_KEPT // MINIONS + 1, "test.ping")
    time.sleep(SETTLE_SECONDS)
    before = fleet.master.private()
    fleet.more(MORE)
    _call(fleet, 1, "test.ping")
    time.sleep(SETTLE_SECONDS)
    return Sample((fleet.master.private() - before) * 1e3 / MORE)


#: Fifty minions of Salt take minutes to start and 5 GB: only in a full run.
ROWS = (
    Row(
        name="ping-50",
        title="ping of 50 minions from a kept client",
        unit="s",
        tools=on_both(ping, MINIONS),
        aim=Times(20),
        repeats=5,
        quick=0,
    ),
    Row(
        name="returns-50",
        title="`cmd.run true` on 50 minions",
        unit="returns/s",
        tools=on_both(returns, MINIONS),
        aim=Times(30),
        repeats=3,
        quick=0,
        less_is_better=False,
        fewer={"salt": 1},
        note=f"{JOBS} jobs, one after the other",
    ),
    Row(
        name="master-50",
        title="master: PSS with 50 minions",
        unit="MB",
        tools=on_both(memory, MINIONS),
        aim=Times(4),
        repeats=1,
        quick=0,
    ),
    Row(
        name="master-extra",
        title="master: memory per extra minion",
        unit="KB",
        tools={"catena": extra_catena},
        aim=Limit(60),
        repeats=1,
        quick=0,
        note=f"private memory of the main process, {MORE} minions on top of {MINIONS}, "
        "whose events and pages fill their bounds before",
    ),
)

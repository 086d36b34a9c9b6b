"""Rows of one idle minion: memory, idle CPU, and time to the first answer."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.equipment import shared
from bench.equipment.fleet import Fleet
from bench.equipment.shared import on_both
from bench.errors import BenchError, NotHereError
from bench.lab import Lab
from bench.measure import Tree
from bench.row import Row, Sample, Times

#: Seconds between a start or a job and the measurement of memory.
SETTLE_SECONDS = 3.0
#: Seconds for which idle minions are measured, in a full and a quick run.
WATCH_SECONDS, QUICK_WATCH_SECONDS = 40.0, 15.0


def start(fleet: Fleet) -> Sample:
    """Seconds from the start of the process to the answer to its first ping, with a known key."""
    seconds = fleet.restart("m000")
    return Sample(seconds, fleet.minions["m000"].tree.cpu())


def fresh(fleet: Fleet) -> Sample:
    """PSS of a minion that has run no job."""
    minion = fleet.restart_silently("m000")
    time.sleep(SETTLE_SECONDS)
    return Sample(minion.tree.pss())


def warm(fleet: Fleet) -> Sample:
    """PSS of a minion after jobs, including its warm processes."""
    answers = fleet.client.ask("cmd.run", "true", times=3)
    if answers.minions != 1:
        raise BenchError("the minion does not answer")
    time.sleep(SETTLE_SECONDS)
    return Sample(fleet.minions["m000"].tree.pss())


def idle_catena(lab: Lab) -> Sample:
    """CPU of a minion without work, percent of a core."""
    return _idle(lab, "catena")


def idle_salt(lab: Lab) -> Sample:
    """CPU of a minion without work, percent of a core."""
    return _idle(lab, "salt")


def _idle(lab: Lab, tool: str) -> Sample:
    found = lab.once("idle", lambda: _watch(lab))
    if tool not in found:
        raise NotHereError(f"{tool} has no minion")
    return Sample(found[tool])


def _watch(lab: Lab) -> dict[str, float]:
    """Return the idle CPU of every tool's minion, watched at the same time."""
    starts: dict[str, Callable[[Lab], Fleet]] = {"catena": shared.catena, "salt": shared.salt}
    trees: dict[str, Tree] = {}
    for tool, start in starts.items():
        if lab.tools.has(tool):
            trees[tool] = start(lab).restart_silently("m000").tree
    time.sleep(SETTLE_SECONDS)
    before = {tool: tree.exact_cpu() for tool, tree in trees.items()}
    begun = time.monotonic()
    time.sleep(QUICK_WATCH_SECONDS if lab.quick else WATCH_SECONDS)
    return {
        tool: (tree.exact_cpu() - before[tool]) / (time.monotonic() - begun) * 100
        for tool, tree in trees.items()
    }


ROWS = (
    Row(
        name="minion-start",
        title="minion: start to answer",
        unit="s",
        tools=on_both(start),
        aim=Times(6),
        repeats=5,
        quick=2,
        note="its key is known; until the start event came and a ping was answered",
    ),
    Row(
        name="minion-fresh",
        title="minion: PSS before its first job",
        unit="MB",
        tools=on_both(fresh),
        aim=Times(4),
        repeats=3,
        quick=1,
    ),
    Row(
        name="minion-warm",
        title="minion: PSS after jobs",
        unit="MB",
        tools=on_both(warm),
        aim=Times(3),
        repeats=3,
        quick=1,
        note="with the template process that catena keeps for ten minutes after a job",
    ),
    Row(
        name="minion-idle",
        title="minion: idle CPU, of one core",
        unit="%",
        tools={"catena": idle_catena, "salt": idle_salt},
        aim=Times(8),
        repeats=1,
        quick=1,
        note=f"watched for {WATCH_SECONDS:.0f} s at the same time "
        f"({QUICK_WATCH_SECONDS:.0f} s in a quick run)",
    ),
)

"""Chains that are paused and continued under faults; the checker detects violations."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from catena.master.chains.holds import ChainHolds
from tests.sim import world
from tests.sim.paused import PausedWorld

SEEDS = int(os.environ.get("CATENA_SIM_SEEDS", "200")) // 5
#: Their stories are none of those of other worlds.
FIRST = 2_000_000
#: Seeds in one test: a failure names its seed, and workers share the load.
BATCH = 10
#: Worlds until one must have shown a slip.
ENOUGH = 40


def violations(seed: int, below: Path, faulty: bool = True) -> str:
    """Return the seed and the violations of its run, one a line; "" if there are none."""
    found = world.run(seed, below, faulty=faulty, kind=PausedWorld).violations
    return "\n    ".join([f"paused world {seed}:", *found]) if found else ""


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_pauses_hold_and_end_under_random_faults(first: int, below: Path) -> None:
    for seed in range(first, min(first + BATCH, SEEDS)):
        found = violations(FIRST + seed, below)
        assert not found, found


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 10))
def test_paused_chains_complete_in_runs_without_faults(seed: int, below: Path) -> None:
    found = violations(seed, below, faulty=False)
    assert not found, found


def test_checker_detects_jobs_sent_for_paused_chains(below: Path) -> None:
    with mock.patch.object(ChainHolds, "paused", lambda *_: {}):
        runs = (world.run(seed, below, kind=PausedWorld) for seed in range(FIRST, FIRST + ENOUGH))
        texts = (text for outcome in runs for text in outcome.violations)
        shown = any(text.startswith("I17") for text in texts)
    assert shown, "no world showed that paused chains go on"

"""Simulation runs under random faults: every invariant holds in each."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.sim import world

SEEDS = int(os.environ.get("CATENA_SIM_SEEDS", "150"))
#: Rough worlds among them.
ROUGH_SEEDS = SEEDS // 5
#: Worlds whose jobs print while they run; each second one is rough.
STREAMING_SEEDS = SEEDS // 8
#: Seeds in one test: a failure names its seed, and workers share the load.
BATCH = 10
_HERE = Path(__file__).parent


def mended() -> list[int]:
    """Return the seeds of bugs that were found before."""
    lines = (_HERE / "seeds.txt").read_text("utf-8").splitlines()
    found = (re.match(r"(\d+)\s+\S", line) for line in lines)
    return [int(match[1]) for match in found if match]


def violations(seed: int, below: Path, faulty: bool = True) -> str:
    """Return how to repeat the run of a seed, and its violations; "" if there are none."""
    found = world.run(seed, below, faulty=faulty).violations
    repeat = f"seed {seed} (python -m tests.sim {seed}):"
    return "\n    ".join([repeat, *found]) if found else ""


@pytest.mark.parametrize("seed", mended())
def test_seed_that_once_failed_passes(seed: int, below: Path) -> None:
    found = violations(seed, below)
    assert not found, found


@pytest.mark.parametrize("first", range(1, SEEDS + 1, BATCH))
def test_invariants_hold_under_random_faults(first: int, below: Path) -> None:
    for seed in range(first, min(first + BATCH, SEEDS + 1)):
        found = violations(world.LARGE + seed, below)
        assert not found, found


@pytest.mark.parametrize("first", range(1, ROUGH_SEEDS + 1, BATCH))
def test_invariants_hold_in_rough_runs(first: int, below: Path) -> None:
    for seed in range(first, min(first + BATCH, ROUGH_SEEDS + 1)):
        found = violations(world.ROUGH + 2 * seed + 1, below)
        assert not found, found


@pytest.mark.parametrize("first", range(0, STREAMING_SEEDS, BATCH))
def test_output_of_running_jobs_is_stored_as_it_was_printed(first: int, below: Path) -> None:
    for seed in range(first, min(first + BATCH, STREAMING_SEEDS)):
        found = violations(world.STREAMING + seed, below)
        assert not found, found


@pytest.mark.parametrize("seed", range(world.STREAMING, world.STREAMING + 8, 2))
def test_output_of_running_jobs_is_stored_in_runs_without_faults(seed: int, below: Path) -> None:
    found = violations(seed, below, faulty=False)
    assert not found, found


@pytest.mark.parametrize("seed", range(world.ROUGH + 1, world.ROUGH + 12, 2))
def test_rough_run_without_faults_completes_everything(seed: int, below: Path) -> None:
    found = violations(seed, below, faulty=False)
    assert not found, found


@pytest.mark.parametrize("seed", range(world.LARGE + 1, world.LARGE + 16))
def test_run_without_faults_completes_everything(seed: int, below: Path) -> None:
    found = violations(seed, below, faulty=False)
    assert not found, found


def test_same_seed_gives_the_same_trace(below: Path) -> None:
    seed = world.LARGE + 4
    assert world.run(seed, below).trace == world.run(seed, below).trace

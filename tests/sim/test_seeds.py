"""Worlds under random faults: everything that was promised holds in each."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim import world

SEEDS = int(os.environ.get("CATENA_SIM_SEEDS", "300"))
#: Rough worlds among them.
ROUGH_SEEDS = SEEDS // 5
#: Seeds in one test: a failure names its seed, and workers share the load.
BATCH = 25
_HERE = Path(__file__).parent


def mended() -> list[int]:
    """Return the seeds of bugs that were found before."""
    lines = (_HERE / "seeds.txt").read_text("utf-8").splitlines()
    found = (re.match(r"(\d+)\s+\S", line) for line in lines)
    return [int(match[1]) for match in found if match]


@pytest.fixture(scope="module")
def below() -> Iterator[Path]:
    """Give a folder that lies in memory where it can."""
    folder = world.folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def judge(seed: int, below: Path, faulty: bool = True) -> None:
    outcome = world.run(seed, below, faulty=faulty)
    told = "\n    ".join(outcome.violations)
    assert not told, f"seed {seed} (python -m tests.sim {seed}):\n    {told}"


@pytest.mark.parametrize("seed", mended())
def test_a_world_that_once_went_wrong_goes_well(seed: int, below: Path) -> None:
    judge(seed, below)


@pytest.mark.parametrize("first", range(1, SEEDS + 1, BATCH))
def test_the_invariants_hold_whatever_befalls_the_world(first: int, below: Path) -> None:
    for seed in range(first, min(first + BATCH, SEEDS + 1)):
        judge(world.LARGE + seed, below)


@pytest.mark.parametrize("first", range(1, ROUGH_SEEDS + 1, BATCH))
def test_the_invariants_hold_in_rough_worlds(first: int, below: Path) -> None:
    for seed in range(first, min(first + BATCH, ROUGH_SEEDS + 1)):
        judge(world.ROUGH + 2 * seed + 1, below)


@pytest.mark.parametrize("seed", range(world.ROUGH + 1, world.ROUGH + 12, 2))
def test_a_rough_world_that_nothing_befalls_does_all_that_was_wanted(
    seed: int, below: Path
) -> None:
    judge(seed, below, faulty=False)


@pytest.mark.parametrize("seed", range(world.LARGE + 1, world.LARGE + 16))
def test_a_world_that_nothing_befalls_does_all_that_was_wanted(seed: int, below: Path) -> None:
    judge(seed, below, faulty=False)


def test_a_seed_tells_one_story(below: Path) -> None:
    seed = world.LARGE + 4
    assert world.run(seed, below).trace == world.run(seed, below).trace

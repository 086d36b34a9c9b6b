"""Worlds of hosts over SSH under random faults: chains end, once, in order, over real reboots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim import ssh_world, world

SEEDS = int(os.environ.get("CATENA_SIM_SEEDS", "300")) // 12
#: Seeds in one test: a failure names its seed, and workers share the load.
BATCH = 5
#: Worlds that once went wrong: a clock set back while a host was away; the same between jobs.
MENDED = (14, 1048)


@pytest.fixture(scope="module")
def below() -> Iterator[Path]:
    """Give a folder that lies in memory where it can."""
    folder = world.folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def wrong(seed: int, below: Path, faulty: bool = True) -> str:
    """Return what went wrong in a world, with the end of its story; "" if nothing did."""
    outcome = ssh_world.run(seed, below, faulty)
    if not outcome.violations:
        return ""
    return "\n    ".join((f"seed {seed}:", *outcome.violations, *outcome.trace[-60:]))


@pytest.mark.parametrize("seed", MENDED)
def test_a_world_that_once_went_wrong_goes_well(seed: int, below: Path) -> None:
    assert not wrong(seed, below)


@pytest.mark.parametrize("first", range(1, SEEDS + 1, BATCH))
def test_chains_over_ssh_end_whatever_befalls_the_world(first: int, below: Path) -> None:
    for seed in range(first, min(first + BATCH, SEEDS + 1)):
        assert not wrong(seed, below)


@pytest.mark.parametrize("seed", range(2001, 2006))
def test_a_world_that_nothing_befalls_does_all_that_was_wanted(seed: int, below: Path) -> None:
    assert not wrong(seed, below, faulty=False)


def test_a_seed_tells_one_story(below: Path) -> None:
    assert ssh_world.run(4, below).trace == ssh_world.run(4, below).trace

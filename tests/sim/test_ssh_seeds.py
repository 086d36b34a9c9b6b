"""SSH hosts under random faults: each chain ends, in order, with each step run once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sim import ssh_world, world

SEEDS = int(os.environ.get("CATENA_SIM_SEEDS", "300")) // 12
#: Seeds in one test, few enough for its time limit on a machine with ten times as much work.
BATCH = 2
#: Worlds that once went wrong: a clock set back while a host was away; a resume file that names no
#: epoch, and a start job whose return came only after the reboot; another chain behind that one.
MENDED = (14, 1048, 2161)


def wrong(seed: int, below: Path, faulty: bool = True) -> str:
    """Return what went wrong in a world, with the end of its story; "" if nothing did."""
    outcome = ssh_world.run(seed, below, faulty)
    if not outcome.violations:
        return ""
    return "\n    ".join((f"seed {seed}:", *outcome.violations, *outcome.trace[-60:]))


@pytest.mark.parametrize("seed", MENDED)
def test_seed_that_once_failed_passes(seed: int, below: Path) -> None:
    assert not wrong(seed, below)


@pytest.mark.parametrize("first", range(1, SEEDS + 1, BATCH))
def test_chains_over_ssh_end_under_random_faults(first: int, below: Path) -> None:
    for seed in range(first, min(first + BATCH, SEEDS + 1)):
        assert not wrong(seed, below)


@pytest.mark.parametrize("first", range(0, SEEDS // 2 + 1, BATCH))
def test_output_of_running_jobs_is_stored_as_it_was_printed(first: int, below: Path) -> None:
    for seed in range(first, min(first + BATCH, SEEDS // 2 + 1)):
        assert not wrong(world.STREAMING + seed, below)


@pytest.mark.parametrize(
    "seed", [*range(2001, 2006), *range(world.STREAMING, world.STREAMING + 3)]
)
def test_run_without_faults_completes_everything(seed: int, below: Path) -> None:
    assert not wrong(seed, below, faulty=False)


def test_same_seed_gives_the_same_trace(below: Path) -> None:
    assert ssh_world.run(4, below).trace == ssh_world.run(4, below).trace

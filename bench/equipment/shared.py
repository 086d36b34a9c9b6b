"""The fleets that rows share, one per tool and size."""

from __future__ import annotations

from collections.abc import Callable

from bench.equipment.catena_fleet import CatenaFleet
from bench.equipment.fleet import Fleet
from bench.equipment.salt_fleet import SaltFleet
from bench.lab import Lab
from bench.row import Measure, Sample


def catena(lab: Lab, minions: int = 1) -> CatenaFleet:
    """Return a catena master with so many minions, all up."""
    return lab.keep(f"catena-{minions}", lambda: CatenaFleet(lab, minions))


def salt(lab: Lab, minions: int = 1) -> SaltFleet:
    """Return a Salt master with so many minions, all up."""
    return lab.keep(f"salt-{minions}", lambda: SaltFleet(lab, minions))


def on_both(measure: Callable[[Fleet], Sample], minions: int = 1) -> dict[str, Measure]:
    """Return a row's measuring functions: the same on the fleets of catena and of Salt."""
    return {
        "catena": lambda lab: measure(catena(lab, minions)),
        "salt": lambda lab: measure(salt(lab, minions)),
    }

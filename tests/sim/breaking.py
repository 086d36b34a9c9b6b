"""Break the product on purpose in a simulation and check that the checker detects it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from tests.sim import world
from tests.sim.world import World

#: Patches the product for one world; the stack takes the patches back.
Mutation = Callable[[ExitStack, World], None]


def shown_by(mutation: Mutation, below: Path, known: int, others: Iterable[int]) -> int:
    """Return the first seed whose world shows *mutation*; 0: none does.

    Args:
        mutation: what is broken.
        below: folder of the worlds.
        known: seed that has shown it; the search is for when worlds have changed.
        others: seeds that are tried after it.
    """
    for seed in (known, *others):
        with ExitStack() as stack:

            def change(made: World, stack: ExitStack = stack) -> None:
                mutation(stack, made)

            if world.run(seed, below, change=change).violations:
                return seed
    return 0

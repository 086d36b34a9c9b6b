"""Break the product on purpose in a simulation and check that the checker detects it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from tests.sim import world
from tests.sim.world import World

#: Patches the product for one world; the stack takes the patches back.
Mutation = Callable[[ExitStack, World], None]


#: Time limit of a test that searches a world, seconds; the known one takes a few.
SEARCH_SECONDS = 1800


def assert_detected(mutation: Mutation, below: Path, known: int, others: Iterable[int]) -> None:
    """Fail if no world shows *mutation*.

    Args:
        mutation: what is broken.
        below: folder of the worlds.
        known: seed that has shown it; the search is for when worlds have changed.
        others: seeds that are tried after it.
    """
    seed = shown_by(mutation, below, known, others)
    assert seed, (
        f"{mutation.__doc__} Neither world {known} nor any other that was tried shows it: if what "
        "happens in the worlds has changed, find a seed that shows it and replace the known one."
    )


def shown_by(mutation: Mutation, below: Path, known: int, others: Iterable[int]) -> int:
    """Return the first seed whose world shows *mutation*; 0: none does. See `assert_detected`."""
    for seed in (known, *others):
        with ExitStack() as stack:

            def change(made: World, stack: ExitStack = stack) -> None:
                mutation(stack, made)

            if world.run(seed, below, change=change).violations:
                return seed
    return 0

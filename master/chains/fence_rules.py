"""Decides when a minion gets a job that removes an ended run, and what waits for that.

Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from catena.core.run_ref import RunRef

#: Pause after the first failure; it doubles with each further failure, up to the longest.
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 900.0


@dataclass(frozen=True)
class Fence:
    """A run that a minion has to remove."""

    run: RunRef
    minion: str
    #: Open job that removes the run; "": there is none.
    jid: str = ""
    #: Number of such jobs in a row that failed, or after which the minion still had the run.
    tries: int = 0
    #: Whether the minion's agent accepts the epoch of a run as an argument.
    named: bool = True
    #: Whether the minion got a newer run of the chain, which replaces this one there.
    replaced: bool = False
    #: The minion has answered that it can't; False where no answer of the minion says so.
    refused: bool = False
    #: Label of the chain.
    label: str = ""
    #: Why the last job failed, for people.
    why: str = ""


class FenceStep(StrEnum):
    """What to do about a fence now."""

    wait = "wait"
    send = "send"
    #: Drop the fence: an agent that accepts no epoch would remove the newer run instead.
    drop = "drop"


def pause(tries: int) -> float:
    """Return the pause in seconds after the last of *tries* failures."""
    if tries <= 0:
        return 0.0
    # Bound the exponent: the power of a huge number of failures would overflow a float.
    doubled: int = 2 ** min(tries - 1, 16)
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * doubled)


def steps(
    fences: Iterable[Fence], waited: Mapping[tuple[str, RunRef], float]
) -> list[tuple[Fence, FenceStep]]:
    """Return the next step for each fence of one minion, which has at most one job at a time.

    Args:
        fences: the fences of one minion.
        waited: (minion, run) -> seconds since the fence's last failure.
    """
    ordered = sorted(fences, key=lambda fence: (fence.tries, fence.run.chain_id))
    # The cause of one failure (a folder in place of the resume file) affects all of its fences.
    ready = all(waited.get((f.minion, f.run), 0.0) >= pause(f.tries) for f in ordered)
    free = ready and not any(fence.jid for fence in ordered)
    found = []
    for fence in ordered:
        step = FenceStep.wait
        if fence.replaced and not fence.named and not fence.jid:
            step = FenceStep.drop
        elif free:
            step, free = FenceStep.send, False
        found.append((fence, step))
    return found


def obstacle(fences: Iterable[Fence], waited: float, limit: float) -> Fence | None:
    """Return the fence that the start of a chain waits for on its minion; None: it may be sent.

    A start waits only for a fence that its minion has refused: it would meet the same obstacle
    there. A clean without an answer, of a minion that is away, delays no chain.

    Args:
        fences: of the minion.
        waited: seconds since the start was ordered.
        limit: the longest wait, seconds.
    """
    if waited >= limit:
        return None
    refused = (fence for fence in fences if fence.refused and (fence.named or not fence.replaced))
    return min(refused, key=lambda fence: (fence.run.chain_id, fence.run.epoch or 0), default=None)

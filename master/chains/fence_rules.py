"""When a minion is told to forget a run that has ended on the master, and what waits for that.

Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from catena.core.run_ref import RunRef

#: Pause after the first failure; it doubles with each further one. Seconds.
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 900.0


@dataclass(frozen=True)
class Fence:
    """A run that a minion has to forget."""

    run: RunRef
    minion: str
    #: Job that is under way; "": none is.
    jid: str = ""
    #: Jobs in a row that failed, or after which the minion still had the run.
    tries: int = 0
    #: Its agent takes the number of the run.
    named: bool = True
    #: A newer run of the chain was sent to the minion, and replaces this one there.
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
    #: Nothing: an agent that takes no run would forget the newer run instead.
    drop = "drop"


def pause(tries: int) -> float:
    """Return how long to wait after the last of *tries* failures, seconds."""
    if tries <= 0:
        return 0.0
    # Bounded before the power: of a huge number of failures it would be no float.
    doubled: int = 2 ** min(tries - 1, 16)
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * doubled)


def steps(
    fences: Iterable[Fence], waited: Mapping[tuple[str, RunRef], float]
) -> list[tuple[Fence, FenceStep]]:
    """Return what to do about each fence of one minion: at most one job is under way there.

    Args:
        fences: of one minion.
        waited: how long each fence has waited since its last failure, seconds.
    """
    ordered = sorted(fences, key=lambda fence: (fence.tries, fence.run.chain_id))
    # What hinders one fence (a folder in the resume file's place) hinders all of that minion.
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

"""How many minions of a batched job work at a time, and who is next."""

from __future__ import annotations

import random
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from catena.core.errors import UsageError
from catena.master.jobs.delivery import OPEN, Delivery

_SIZE = re.compile(r"([0-9]{1,7})(%?)\Z")
#: States of deliveries that take a place of the batch, always or while the minion is connected.
_BUSY = frozenset({Delivery.received.value, Delivery.running.value})
_ON_THE_WAY = frozenset({Delivery.queued.value, Delivery.sent.value})


def size(text: str, total: int) -> int:
    """Return the number that "5" or "20%" of *total* minions means; at least 1, "" is all (0).

    Raises:
        UsageError: it is neither a number nor a percentage from 1% to 100%.
    """
    if not text:
        return 0
    found = _SIZE.match(text.strip())
    if found is None:
        raise UsageError(f"batch {text[:40]!r}: expected a number or a percentage, as 5 or 20%")
    number = int(found[1])
    if not found[2]:
        if number < 1:
            raise UsageError("batch: at least 1")
        return number
    if not 1 <= number <= 100:
        raise UsageError(f"batch {text!r}: a percentage is from 1% to 100%")
    return max(1, total * number // 100)


def first_states(
    minions: Sequence[str], limit: int, connected: Container[str], sent: Container[str] = ()
) -> dict[str, Delivery]:
    """Return the first state of each delivery: at most *limit* connected minions begin.

    A minion that is away takes no place of the batch; it waits until it connects and a place is
    free. What begins is stored as `sent` at once for those of *sent*, whom the order reaches next:
    to say so after it had gone would be another statement for each.
    """
    states = {}
    begun = 0
    for minion in minions:
        begins = not limit or (begun < limit and minion in connected)
        begun += begins
        first = Delivery.sent if minion in sent else Delivery.queued
        states[minion] = first if begins else Delivery.held
    return states


class BatchPlace(NamedTuple):
    """One delivery of a batched job."""

    minion: str
    state: str
    #: Seconds since the epoch.
    changed: float


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """The deliveries of a batched job, of which at least one is held."""

    jid: str
    places: tuple[BatchPlace, ...]
    #: Seconds for which a delivery counts as running after its end.
    wait_seconds: float
    #: Whether the held deliveries never begin, because an earlier minion failed.
    stops: bool


@dataclass(frozen=True, slots=True)
class BatchMoves:
    """What becomes of the held deliveries of a batched job, as (jid, minion, state)."""

    #: Those that begin now.
    begin: tuple[tuple[str, str, str], ...] = ()
    #: Those that never begin, because an earlier minion failed.
    cancel: tuple[tuple[str, str, str], ...] = ()


def next_of(facts: BatchFacts, limit: int, connected: Container[str], now: float) -> BatchMoves:
    """Return which held deliveries of a batched job begin, or are cancelled.

    The caller moves them in the transaction that read *facts*. `connected` is read from the
    writer's thread; a minion that leaves meanwhile merely waits as queued.

    Args:
        facts: the deliveries of the job.
        limit: its batch.
        connected: ids of the minions that are connected.
        now: the master's time, seconds since the epoch.
    """
    held = [place for place in facts.places if place.state == Delivery.held.value]
    if facts.stops:
        return BatchMoves(cancel=tuple((facts.jid, at.minion, at.state) for at in held))
    active = sum(
        place.state in _BUSY
        or (place.state in _ON_THE_WAY and place.minion in connected)
        or (place.state not in OPEN and now - facts.wait_seconds < place.changed <= now)
        for place in facts.places
    )
    waiting = [place for place in held if place.minion in connected]
    free = waiting[: max(0, limit - active)]
    return BatchMoves(tuple((facts.jid, at.minion, at.state) for at in free))


def subset(minions: Sequence[str], count: int, connected: Container[str]) -> tuple[str, ...]:
    """Return *count* random ones of *minions*, sorted; connected ones first; 0 means all."""
    if not 0 < count < len(minions):
        return tuple(minions)
    there = [name for name in minions if name in connected]
    away = [name for name in minions if name not in connected]
    picked = random.sample(there, min(count, len(there)))
    return tuple(sorted(picked + random.sample(away, count - len(picked))))

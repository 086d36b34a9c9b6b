"""Decides which minions of a batched job begin."""

from __future__ import annotations

import random
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from catena.core.errors import UsageError
from catena.master.jobs.delivery import OPEN, Delivery

_SIZE = re.compile(r"([0-9]{1,7})(%?)\Z")
#: States of deliveries that always occupy a place of the batch.
_BUSY = frozenset({Delivery.received.value, Delivery.running.value})
#: States of deliveries that occupy a place of the batch while the minion is connected.
_ON_THE_WAY = frozenset({Delivery.queued.value, Delivery.sent.value})


def size(text: str, total: int) -> int:
    """Return the maximum number of concurrent minions of a job; 0: all.

    Args:
        text: a number, a percentage of *total* ("20%"), or "" for all minions.
        total: number of minions of the job.

    Raises:
        UsageError: *text* is neither a positive number nor a percentage from 1% to 100%.
    """
    if not text:
        return 0
    found = _SIZE.match(text.strip())
    if found is None:
        raise UsageError(f"batch {text[:40]!r}: expected a number or a percentage, like 5 or 20%")
    number = int(found[1])
    if not found[2]:
        if number < 1:
            raise UsageError(f"batch {text!r}: a number is at least 1")
        return number
    if not 1 <= number <= 100:
        raise UsageError(f"batch {text!r}: a percentage is from 1% to 100%")
    return max(1, total * number // 100)


def first_states(
    minions: Sequence[str], limit: int, connected: Container[str], sent: Container[str] = ()
) -> dict[str, Delivery]:
    """Return the first state of each delivery: at most *limit* connected minions begin.

    A disconnected minion occupies no place of the batch. It begins when it is connected and a
    place is free.

    Args:
        minions: the minions of the job.
        limit: maximum number of concurrent deliveries; 0: unlimited.
        connected: ids of the minions that can get the job now.
        sent: ids of the minions to which the order is sent right after the commit. Their
            deliveries begin as `sent`, which saves an update.
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
    #: Time of the last change, seconds since the epoch.
    changed: float


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """The deliveries of a batched job; at least one of them is held."""

    jid: str
    places: tuple[BatchPlace, ...]
    #: Seconds for which a delivery counts as running after its end.
    wait_seconds: float
    #: Whether the held deliveries are cancelled because another minion failed.
    stops: bool


@dataclass(frozen=True, slots=True)
class BatchMoves:
    """Decided transitions of held deliveries of a batched job, as (jid, minion, state)."""

    #: Deliveries that begin now.
    begin: tuple[tuple[str, str, str], ...] = ()
    #: Deliveries that are cancelled because another minion failed.
    cancel: tuple[tuple[str, str, str], ...] = ()


def next_of(facts: BatchFacts, limit: int, connected: Container[str], now: float) -> BatchMoves:
    """Return which held deliveries of a batched job begin or are cancelled.

    The caller moves them in the transaction that read *facts*.

    Args:
        facts: the deliveries of the job.
        limit: maximum number of concurrent deliveries.
        connected: ids of the connected minions. The set may change meanwhile, because the writer's
            thread reads it; the job of a minion that has disconnected stays queued.
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
    """Return *count* of *minions* at random, preferably connected ones, sorted; 0: all."""
    if not 0 < count < len(minions):
        return tuple(minions)
    present = [name for name in minions if name in connected]
    absent = [name for name in minions if name not in connected]
    picked = random.sample(present, min(count, len(present)))
    return tuple(sorted(picked + random.sample(absent, count - len(picked))))

"""Drops what the settings no longer keep: by age, and by size when that is not enough.

Each package of the master contributes a `Retention` of its rows (`master.contributions`). Nothing
that is under way is ever dropped. Each step is one short transaction, so that pruning a large
store never keeps the master from storing a return.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import sqlalchemy as sa

from catena.core.config.master import MasterSettings
from catena.master.store.upkeep import used_bytes

log = logging.getLogger(__name__)

T = TypeVar("T")

MIB = 1024 * 1024
RECENT_SECONDS = 3600.0

#: Name of a retention -> until when its rows are dropped, epoch seconds (0: they are kept).
Before = Mapping[str, float]


class Writer(Protocol):
    """The part of the store that is needed here."""

    def write(self, fn: Callable[[sa.Connection], T]) -> Awaitable[T]:
        """Run *fn* in one transaction."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How one package drops its old rows."""

    #: Of the rows, for `Before` and for what a prune returns.
    name: str
    #: Returns until when rows are dropped, by the settings and the time now (epoch seconds).
    before: Callable[[MasterSettings, float], float]
    #: Drops at most one batch of old rows; returns how many of each name.
    drop: Callable[[sa.Connection, Before], Mapping[str, int]]
    #: Whether a store that is too large keeps these rows for RECENT_SECONDS only.
    shrinks: bool = False
    #: Names that `drop` counts beside its own.
    counts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Until when rows are dropped, and how much of the database file may be in use.

    What is younger than `recent` stays even when the store is too large: somebody waits for it.
    """

    before: Before
    recent: float
    store_bytes: int


def limits(rules: Sequence[Retention], settings: MasterSettings, now: float) -> Limits:
    """Return what *settings* keep at *now* (epoch seconds)."""
    before = {rule.name: rule.before(settings, now) for rule in rules}
    return Limits(before, now - RECENT_SECONDS, settings.keep_store_mib * MIB)


async def prune(store: Writer, rules: Sequence[Retention], kept: Limits) -> dict[str, int]:
    """Drop what is too old, then the oldest of what is left until the store is small enough.

    Returns:
        How many rows of each name were dropped.
    """
    total = await _drain(store, partial(_drop, rules=rules, before=kept.before))
    if kept.store_bytes:
        total += await _drain(store, partial(_shrink, rules=rules, kept=kept))
        used = await store.write(used_bytes)
        if used > kept.store_bytes:
            log.warning(
                "the store uses %d MiB of keep_store_mib %d, and everything left in it is in use",
                used // MIB,
                kept.store_bytes // MIB,
            )
    names = [rule.name for rule in rules] + [name for rule in rules for name in rule.counts]
    return {name: total[name] for name in names}


async def _drain(store: Writer, step: Callable[[sa.Connection], Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    while some := await store.write(step):
        total += some
    return total


def _shrink(conn: sa.Connection, rules: Sequence[Retention], kept: Limits) -> Counter[str]:
    """Drop the oldest of everything that may go, while too much is in use."""
    if used_bytes(conn) <= kept.store_bytes:
        return Counter()
    earlier = {rule.name: kept.recent for rule in rules if rule.shrinks}
    return _drop(conn, rules, {**kept.before, **earlier})


def _drop(conn: sa.Connection, rules: Sequence[Retention], before: Before) -> Counter[str]:
    total: Counter[str] = Counter()
    for rule in rules:
        # `+=` leaves out counts of 0: an empty result ends the prune.
        total += Counter(rule.drop(conn, before))
    return total

"""Deletes rows that the settings no longer keep, by age and, if necessary, by size.

Each package of the master contributes a `Retention` of its rows (`master.contributions`). Work in
progress is never deleted. Each step is a short transaction, so that pruning a large store does not
delay the storing of returns.
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

#: Name of a retention -> time before which its rows are deleted, epoch seconds (0: all are kept).
Before = Mapping[str, float]


class Writer(Protocol):
    """The part of the store that is used here."""

    def write(self, fn: Callable[[sa.Connection], T]) -> Awaitable[T]:
        """Run *fn* in one transaction."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How one package deletes its old rows."""

    #: Name of the rows, for `Before` and for the result of a prune.
    name: str
    #: Returns the time before which rows are deleted, from the settings and now (epoch seconds).
    before: Callable[[MasterSettings, float], float]
    #: Deletes at most one batch of old rows; returns the number of rows per name.
    drop: Callable[[sa.Connection, Before], Mapping[str, int]]
    #: Whether a store that is too large keeps these rows for RECENT_SECONDS only.
    shrinks: bool = False
    #: Further names that `drop` counts.
    counts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Times before which rows are deleted, and the allowed size of the database.

    Rows younger than `recent` stay even if the store is too large, because somebody waits for
    them.
    """

    before: Before
    recent: float
    store_bytes: int


def limits(rules: Sequence[Retention], settings: MasterSettings, now: float) -> Limits:
    """Return the limits according to *settings* at *now* (epoch seconds)."""
    before = {rule.name: rule.before(settings, now) for rule in rules}
    return Limits(before, now - RECENT_SECONDS, settings.keep_store_mib * MIB)


async def prune(store: Writer, rules: Sequence[Retention], kept: Limits) -> dict[str, int]:
    """Delete rows that are too old, then the oldest others until the store is small enough.

    Returns:
        Number of deleted rows per name.
    """
    total = await _drain(store, partial(_drop, rules=rules, before=kept.before))
    if kept.store_bytes:
        total += await _drain(store, partial(_shrink, rules=rules, kept=kept))
        used = await store.write(used_bytes)
        if used > kept.store_bytes:
            log.warning(
                "the store uses %d MiB, more than keep_store_mib (%d), and all of it is in use",
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
    """Delete one batch of the oldest rows of each kind while the store is too large."""
    if used_bytes(conn) <= kept.store_bytes:
        return Counter()
    earlier = {rule.name: kept.recent for rule in rules if rule.shrinks}
    return _drop(conn, rules, {**kept.before, **earlier})


def _drop(conn: sa.Connection, rules: Sequence[Retention], before: Before) -> Counter[str]:
    total: Counter[str] = Counter()
    for rule in rules:
        # `+=` drops counts of 0, and an empty result ends the prune.
        total += Counter(rule.drop(conn, before))
    return total

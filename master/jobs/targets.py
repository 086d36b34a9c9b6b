"""Which accepted minions, and hosts that SSH reaches, a target expression means."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa

from catena.core.errors import CatenaError, NotFoundError
from catena.core.suggest import unknown
from catena.core.target import Nodegroups, Subject, Target, parse
from catena.master.minions import rows as minion_rows
from catena.master.minions.facts import Facts
from catena.master.store.database import Store

#: Types that need nothing but the id.
_BY_ID = frozenset({"glob", "pcre", "list"})
_PILLAR_WORD = re.compile(r"(?:^|\s)[IJ][^\w@]?@")
_WILD = frozenset("*?[")

#: Returns the pillars of minions, freshly compiled or from a short-lived cache.
Pillars = Callable[[Collection[str]], Awaitable[Mapping[str, Mapping[str, Any]]]]


class RosterSource(Protocol):
    """The hosts that SSH reaches (`master.push.hosts.RosterHosts`)."""

    def ids(self) -> Collection[str]:
        """Return their ids."""

    def grains(self, name: str) -> Mapping[str, Any]:
        """Return the grains that the roster gives to one."""

    async def refresh(self) -> None:
        """Read the roster again where it has changed."""


@dataclass(frozen=True, slots=True)
class TargetSources:
    """Where facts of minions come from."""

    store: Store
    #: Ids of the accepted minions, live.
    ids: Callable[[], Collection[str]]
    nodegroups: Nodegroups
    pillars: Pillars
    facts: Facts
    hosts: RosterSource | None = None


class Targets:
    """Resolves targets on the master: a minion never learns of a job that isn't its own.

    Args:
        sources: where facts come from.
        with_hosts: whether patterns mean hosts of the roster too; their ids always do.
    """

    def __init__(self, sources: TargetSources, *, with_hosts: bool = False) -> None:
        self._sources = sources
        self._with_hosts = with_hosts

    async def resolve(self, tgt: str, tgt_type: str) -> tuple[str, ...]:
        """Return the accepted minions (and hosts) that match, sorted; empty when none does.

        Raises:
            TargetError: the expression is malformed.
            NotFoundError: it names a minion that isn't accepted; the nearest name is offered.
            ConfigError: the roster, which is asked too, can't be read.
            TryLaterError: grains that minions reported can't be stored now.
        """
        target = parse(tgt, tgt_type, self._sources.nodegroups)
        if self._with_hosts and self._sources.hosts is not None:
            await self._sources.hosts.refresh()
        ids = self._matched()
        if target.ids is not None:
            await self._learn(target.ids)
            self.check(target.ids)
            return tuple(sorted(set(target.ids)))
        if tgt_type == "glob" and not _WILD.intersection(tgt) and tgt:
            await self._learn((tgt,))
            self.check((tgt,))
            return (tgt,)
        if tgt_type in _BY_ID:
            return tuple(sorted(name for name in ids if target.matches(Subject(name))))
        await self._sources.facts.settled()
        asks = self._needs_pillar(tgt, tgt_type)
        # Pillar of a host that SSH reaches is compiled when it is visited.
        pillars = await self._sources.pillars(self._sources.ids()) if asks else {}
        hosts = self._sources.hosts
        given = {name: hosts.grains(name) for name in ids} if hosts and self._with_hosts else {}
        return await self._sources.store.read(
            lambda conn: _matching(conn, target, ids, pillars, given)
        )

    async def _learn(self, names: Collection[str]) -> None:
        """Look into the roster for names that no minion has; one that is broken has none more."""
        hosts, ids = self._sources.hosts, self._sources.ids()
        if hosts is not None and not all(name in ids for name in names):
            with suppress(CatenaError):
                await hosts.refresh()

    def _matched(self) -> Collection[str]:
        """Return the ids that patterns are matched against."""
        return self._known() if self._with_hosts else self._sources.ids()

    def _known(self) -> Collection[str]:
        """Return every id that may be named."""
        ids, hosts = self._sources.ids(), self._sources.hosts
        return ids if hosts is None else {*ids, *hosts.ids()}

    def check(self, minions: Collection[str]) -> None:
        """Raise NotFoundError, with the nearest name, unless all *minions* are accepted."""
        ids = self._sources.ids()
        for name in minions:
            if name not in ids and name not in self._known():
                raise NotFoundError(unknown("minion", name, self._known()))

    def _needs_pillar(self, tgt: str, tgt_type: str) -> bool:
        if tgt_type.startswith("pillar"):
            return True
        words = [tgt]
        for group in self._sources.nodegroups.values():
            words += [group] if isinstance(group, str) else group
        return any(_PILLAR_WORD.search(text) for text in words)


def _matching(
    conn: sa.Connection,
    target: Target,
    ids: Collection[str],
    pillars: Mapping[str, Mapping[str, Any]],
    given: Mapping[str, Mapping[str, Any]],
) -> tuple[str, ...]:
    grains = minion_rows.every_grains(conn)
    return tuple(
        name
        for name in sorted(ids)
        if target.matches(
            Subject(name, grains.get(name) or given.get(name) or {}, pillars.get(name) or {})
        )
    )

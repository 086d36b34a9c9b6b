"""Resolves target expressions to accepted minions and SSH hosts."""

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

#: Types of targets that are matched against ids only.
_BY_ID = frozenset({"glob", "pcre", "list"})
_PILLAR_WORD = re.compile(r"(?:^|\s)[IJ][^\w@]?@")
_WILD = frozenset("*?[")

#: Returns minion -> pillar, freshly compiled or from a short-lived cache.
Pillars = Callable[[Collection[str]], Awaitable[Mapping[str, Mapping[str, Any]]]]


class RosterSource(Protocol):
    """The SSH hosts of the roster (`master.push.hosts.RosterHosts`)."""

    def ids(self) -> Collection[str]:
        """Return the ids of the hosts."""

    def grains(self, name: str) -> Mapping[str, Any]:
        """Return the grains of a host that the roster sets."""

    async def refresh(self) -> None:
        """Read the roster again if it has changed."""


@dataclass(frozen=True, slots=True)
class TargetSources:
    """The sources of the data that targets are matched against."""

    store: Store
    #: Returns the ids of the accepted minions.
    ids: Callable[[], Collection[str]]
    nodegroups: Nodegroups
    pillars: Pillars
    facts: Facts
    #: None: there are no SSH hosts.
    hosts: RosterSource | None = None


class Targets:
    """Resolves targets on the master, so that minions receive only their own jobs.

    Args:
        sources: of the data that targets are matched against.
        with_hosts: whether patterns match SSH hosts, too. Targets can always name them by id.
    """

    def __init__(self, sources: TargetSources, *, with_hosts: bool = False) -> None:
        self._sources = sources
        self._with_hosts = with_hosts

    async def resolve(self, tgt: str, tgt_type: str) -> tuple[str, ...]:
        """Return the accepted minions (and SSH hosts) that match, sorted; () if none matches.

        Raises:
            TargetError: the expression is malformed.
            NotFoundError: it names an unknown minion; the message has the nearest name.
            ConfigError: patterns match SSH hosts, too, and the roster can't be read.
            TryLaterError: grains that minions reported can't be stored now.
        """
        target = parse(tgt, tgt_type, self._sources.nodegroups)
        if self._with_hosts and self._sources.hosts is not None:
            await self._sources.hosts.refresh()
        ids = self._pattern_ids()
        if target.ids is not None:
            await self._refresh_roster_for(target.ids)
            self.check(target.ids)
            return tuple(sorted(set(target.ids)))
        if tgt_type == "glob" and not _WILD.intersection(tgt) and tgt:
            await self._refresh_roster_for((tgt,))
            self.check((tgt,))
            return (tgt,)
        if tgt_type in _BY_ID:
            return tuple(sorted(name for name in ids if target.matches(Subject(name))))
        await self._sources.facts.settled()
        needs_pillar = self._needs_pillar(tgt, tgt_type)
        # The pillar of an SSH host is compiled during the visit, so it is not known here.
        pillars = await self._sources.pillars(self._sources.ids()) if needs_pillar else {}
        hosts = self._sources.hosts
        roster = {name: hosts.grains(name) for name in ids} if hosts and self._with_hosts else {}
        return await self._sources.store.read(
            lambda conn: _matching(conn, target, ids, pillars, roster)
        )

    async def _refresh_roster_for(self, names: Collection[str]) -> None:
        """Read the roster again if no minion has one of *names*; ignore an unreadable roster."""
        hosts, ids = self._sources.hosts, self._sources.ids()
        if hosts is not None and not all(name in ids for name in names):
            with suppress(CatenaError):
                await hosts.refresh()

    def _pattern_ids(self) -> Collection[str]:
        """Return the ids that patterns are matched against."""
        return self._all_ids() if self._with_hosts else self._sources.ids()

    def _all_ids(self) -> Collection[str]:
        """Return the ids of minions and SSH hosts, which targets can name."""
        ids, hosts = self._sources.ids(), self._sources.hosts
        return ids if hosts is None else {*ids, *hosts.ids()}

    def check(self, minions: Collection[str]) -> None:
        """Raise NotFoundError, with the nearest name, unless all *minions* are known.

        An id is known if it is that of an accepted minion or of an SSH host.
        """
        ids = self._sources.ids()
        for name in minions:
            if name not in ids and name not in self._all_ids():
                raise NotFoundError(unknown("minion", name, self._all_ids()))

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
    roster: Mapping[str, Mapping[str, Any]],
) -> tuple[str, ...]:
    """Return the ids that match; reported grains replace those of the roster."""
    grains = minion_rows.every_grains(conn)
    return tuple(
        name
        for name in sorted(ids)
        if target.matches(
            Subject(name, grains.get(name) or roster.get(name) or {}, pillars.get(name) or {})
        )
    )

"""Tells which ids are hosts that are reached over SSH: those of the roster without an agent."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from catena.core.errors import CatenaError

#: Age at which an unchanged roster file is read again: a template may render differently.
OLD_SECONDS = 300.0

#: Reads the roster: id -> grains that the roster gives to the host.
ReadRoster = Callable[[], Awaitable[Mapping[str, Mapping[str, Any]]]]


class RosterHosts:
    """The hosts of the roster, as it was read last.

    An id that is also an accepted minion means the minion: after a chain has installed an agent
    over SSH, jobs go to the agent. `catena ssh` still reaches the host.

    Args:
        file: the roster file, which is checked for changes.
        read: reads the roster in another process, because it may be a template.
        minions: returns the ids of the accepted minions.
        monotonic: returns seconds on the monotonic clock.
    """

    def __init__(
        self,
        file: Path,
        read: ReadRoster,
        minions: Callable[[], Collection[str]],
        monotonic: Callable[[], float],
    ) -> None:
        self._file = file
        self._read = read
        self._minions = minions
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._at = 0.0
        self._grains: Mapping[str, Mapping[str, Any]] = {}
        self._known: set[str] = set()
        self._kept: frozenset[str] = frozenset()
        #: Why the roster can't be read now; "": it could be read.
        self.fault = ""

    def __contains__(self, name: object) -> bool:
        """Return whether the jobs of *name* are carried out over SSH."""
        if name in self._kept:
            return True
        known = name in self._grains or name in self._known
        return known and name not in self._minions()

    def keep(self, names: Iterable[str]) -> frozenset[str]:
        """Set the hosts with open runs: they stay SSH hosts even if a run installs an agent.

        Returns:
            Hosts whose runs have ended and that are minions from now on.
        """
        before, self._kept = self._kept, frozenset(names)
        return frozenset(name for name in before - self._kept if name in self._minions())

    def know(self, names: Iterable[str]) -> None:
        """Remember hosts that have got jobs, so that a broken roster does not affect them."""
        self._known.update(names)

    def ids(self) -> frozenset[str]:
        """Return the ids of the hosts that the roster contains now."""
        return frozenset(self._grains) - frozenset(self._minions())

    def grains(self, name: str) -> Mapping[str, Any]:
        """Return the grains that the roster gives to a host."""
        return self._grains.get(name, {})

    async def refresh(self) -> None:
        """Read the roster again if its file has changed.

        Raises:
            CatenaError: the roster can't be read; the hosts stay as they were.
        """
        async with self._lock:
            stamp = _stamp(self._file)
            now = self._monotonic()
            if stamp == self._stamp and now - self._at < OLD_SECONDS and not self.fault:
                return
            if stamp is None:
                self._grains = {}
            else:
                try:
                    self._grains = dict(await self._read())
                except CatenaError as error:
                    self.fault = str(error)
                    raise
            self._stamp, self._at, self.fault = stamp, now, ""


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)

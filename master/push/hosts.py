"""Which ids are hosts that SSH reaches: those of the roster that are no minions."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from catena.core.errors import CatenaError

#: A roster that renders otherwise although its file is the same is noticed after this.
OLD_SECONDS = 300.0

#: Reads the roster: id -> grains that it gives to the host.
ReadRoster = Callable[[], Awaitable[Mapping[str, Mapping[str, Any]]]]


class RosterHosts:
    """The ids of the roster, as it was read last.

    Of an id that is an accepted minion too the minion is meant: an agent that was installed over
    SSH takes over when the chain that did so is over, and `catena ssh` still reaches the host.

    Args:
        file: the roster, whose change is looked for.
        read: reads it, in a process of its own: it may be a template.
        minions: ids of the accepted minions, live.
        monotonic: seconds.
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
        #: Why the roster can't be read now; "": it can.
        self.fault = ""

    def __contains__(self, name: object) -> bool:
        """Return whether SSH reaches *name*, or did, so that its jobs are for nobody else."""
        if name in self._kept:
            return True
        known = name in self._grains or name in self._known
        return known and name not in self._minions()

    def keep(self, names: Iterable[str]) -> frozenset[str]:
        """Say which hosts are in the midst of something: a chain may install an agent there.

        Returns:
            Those that were, and that an agent answers for from now on.
        """
        before, self._kept = self._kept, frozenset(names)
        return frozenset(name for name in before - self._kept if name in self._minions())

    def know(self, names: Iterable[str]) -> None:
        """Remember hosts that jobs were for: a roster that is broken changes nothing for them."""
        self._known.update(names)

    def ids(self) -> frozenset[str]:
        """Return the hosts."""
        return frozenset(self._grains) - frozenset(self._minions())

    def grains(self, name: str) -> Mapping[str, Any]:
        """Return the grains that the roster gives to a host."""
        return self._grains.get(name, {})

    async def refresh(self) -> None:
        """Read the roster again where it has changed.

        Raises:
            CatenaError: it can't be read; the hosts are those of before.
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

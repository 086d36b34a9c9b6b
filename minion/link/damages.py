"""Tells of damaged files: one line in the agent's log each, and an event at the master."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import Callable, Optional, Set

from catena.core import records
from catena.core.errors import CatenaError
from catena.minion.link.events import Told
from catena.minion.log import Log
from catena.runtime import damage
from catena.transport.messages import EventFired

#: Below `minion/<id>/event/`.
TAG = "damaged"


class Damages:
    """The reports that any process of the agent has left.

    Args:
        cache_dir: the agent's.
        id: this minion's.
        fire: keeps an event for the master (`Events.fired`).
        log: the agent's log.
    """

    def __init__(
        self, cache_dir: Path, id: str, fire: Callable[[EventFired, Told], None], log: Log
    ) -> None:
        self._cache_dir, self._fire, self._log = cache_dir, fire, log
        self._folder = f"{cache_dir}/{damage.FOLDER}"
        self._tag = f"minion/{id}/event/{TAG}"
        self._logged: Set[str] = set()
        #: When the folder changed last, as it was looked at; None: it was not there.
        self._changed: Optional[int] = None

    def look(self) -> None:
        """Log new reports and send them; one system call where there is none."""
        try:
            changed = os.stat(self._folder).st_mtime_ns  # noqa: PTH116  # no Path needed
        except OSError:
            return
        if changed == self._changed:
            return
        self._changed = changed
        for path, found in damage.untold(self._cache_dir):
            if path.name in self._logged:
                continue
            self._logged.add(path.name)
            self._log.error(found.text())
            data = {**records.encode(found), "file": Path(found.path).name}
            event = EventFired(damage.stamp(path), self._tag, data)
            try:
                self._fire(event, partial(self._kept, path))
            except CatenaError as error:
                self._log.error(f"{path}: the master can't be told yet: {error}")

    def _kept(self, path: Path, fault: Optional[Exception]) -> None:
        """The event is durable, or can't be: then the next agent process tells it."""
        if fault is None:
            with contextlib.suppress(OSError):  # a full disk: it is told once more
                damage.told(path)

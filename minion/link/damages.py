"""Reports damaged files: a line in the agent's log, and an event to the master."""

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
from catena.transport.messages import EventFired

#: Tag of the event below `minion/<id>/event/`.
TAG = "damaged"
#: `runtime.damage.FOLDER`, which an agent without damaged files does not import; a test compares.
FOLDER = "damaged"


class Damages:
    """Sends the damage reports that processes of the agent have left.

    Args:
        cache_dir: the agent's cache folder.
        id: this minion's id.
        fire: stores an event for the master (`Events.fired`).
        log: the agent's log.
    """

    def __init__(
        self, cache_dir: Path, id: str, fire: Callable[[EventFired, Told], None], log: Log
    ) -> None:
        self._cache_dir, self._fire, self._log = cache_dir, fire, log
        self._folder = f"{cache_dir}/{FOLDER}"
        self._tag = f"minion/{id}/event/{TAG}"
        self._logged: Set[str] = set()
        #: Modification time of the folder at the last check; None: it did not exist.
        self._changed: Optional[int] = None

    def look(self) -> None:
        """Log and send new reports; costs one system call if there are none."""
        try:
            changed = os.stat(self._folder).st_mtime_ns  # noqa: PTH116  # no Path needed
        except OSError:
            return
        if changed == self._changed:
            return
        self._changed = changed
        from catena.runtime import damage

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
                self._log.error(f"{path}: the report cannot be sent to the master yet: {error}")

    def _kept(self, path: Path, fault: Optional[Exception]) -> None:
        """Delete a report whose event is durable; otherwise the next agent process sends it."""
        if fault is None:
            with contextlib.suppress(OSError):  # a full disk: the report is sent once more
                from catena.runtime import damage

                damage.told(path)

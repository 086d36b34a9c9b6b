"""What this minion still has to tell the master, said again until the master has stored it.

Returns lie in their job folders, events in files of their own; here is only which of them are
open and when each is due again. Nothing is held in memory but keys: a minion that was cut off for
days does not grow.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Callable, Dict, List, Optional

from catena.core import records
from catena.core.errors import CatenaError, LimitError
from catena.core.files import private_folder, read_limited, unlink_durable, write_durable
from catena.core.frozen import dataclass
from catena.core.ids import BadNameError
from catena.transport import wire
from catena.transport.messages import EventFired

#: First pause before something is said again, and the longest one.
RETRY_SECONDS = 15.0
RETRY_LIMIT_SECONDS = 300.0
#: Said and not yet acked, at most: a master that comes back is not flooded by each minion.
WINDOW = 16
#: Events that wait at most. Returns have no such bound: each belongs to a job that was accepted.
EVENT_LIMIT = 10_000
#: Fits a frame of the control socket.
_EVENT_BYTES = 240 * 1024
_EVENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}\Z")
#: Pause after the link took nothing more.
_FULL_SECONDS = 0.05


@dataclass
class Pending:
    """One thing to tell; *say* sends it and returns False when the link took nothing."""

    say: Callable[[], bool]
    due: float
    pause: float = RETRY_SECONDS
    said: bool = False


class Outbox:
    """When to say what; oldest first."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._pending: Dict[str, Pending] = {}
        self._connected = False
        #: The link was full: nothing is said before this moment.
        self._full_until = 0.0

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, key: str) -> bool:
        return key in self._pending

    def add(self, key: str, say: Callable[[], bool], now: float) -> None:
        """Tell the master of *key* as soon as possible; once, however often it is added."""
        if key not in self._pending:
            self._pending[key] = Pending(say, now)

    def acked(self, key: str) -> bool:
        """Forget *key*; False when it is not (or no longer) here."""
        return self._pending.pop(key, None) is not None

    def connected(self, now: float) -> None:
        """Say everything anew on a new connection: what the old one took may be lost."""
        self._connected, self._full_until = True, 0.0
        for pending in self._pending.values():
            pending.due, pending.pause, pending.said = now, RETRY_SECONDS, False

    def lost(self) -> None:
        """Say nothing until connected again."""
        self._connected = False

    def service(self, now: float) -> None:
        """Say what is due, within the window."""
        if not self._connected or now < self._full_until:
            return
        flying = sum(1 for pending in self._pending.values() if pending.said)
        for pending in list(self._pending.values()):
            if pending.due > now or (not pending.said and flying >= self._window):
                continue
            if not pending.say():
                self._full_until = now + _FULL_SECONDS
                return
            flying += not pending.said
            pending.said = True
            pending.due = now + pending.pause
            pending.pause = min(2 * pending.pause, RETRY_LIMIT_SECONDS)

    def next_due(self) -> Optional[float]:
        """Return when `service` has something to do next; None: nothing, or not connected."""
        if not self._connected or not self._pending:
            return None
        flying = sum(1 for pending in self._pending.values() if pending.said)
        open_window = flying < self._window
        due = [p.due for p in self._pending.values() if p.said or open_window]
        return max(min(due), self._full_until) if due else None


class EventFiles:
    """The events that wait, one file each: `<number>-<event id>`."""

    def __init__(self, cache_dir: Path) -> None:
        self._folder = private_folder(private_folder(cache_dir) / "outbox")
        self._number = 0
        self._paths: Dict[str, Path] = {}
        for path in sorted(self._folder.iterdir()):
            number, _, event_id = path.name.partition("-")
            if number.isdigit() and event_id:
                self._number = max(self._number, int(number))
                self._paths[event_id] = path
            elif path.name.startswith("."):
                # Left by a writer that was killed: never renamed, so never promised.
                path.unlink()

    def keys(self) -> List[str]:
        """Return the ids of the events that wait, oldest first."""
        return list(self._paths)

    def add(self, event: EventFired) -> bool:
        """Keep *event* for good; False when it is here already.

        Raises:
            LimitError: too many wait, or this one is too large.
            OSError: it could not be written.
        """
        if not _EVENT_ID.match(event.event_id):
            raise BadNameError(f"{event.event_id[:80]!r} is not an event id")
        if event.event_id in self._paths:
            return False
        if len(self._paths) >= EVENT_LIMIT:
            raise LimitError(f"{EVENT_LIMIT} events wait for the master already")
        data = wire.pack_body(event)
        if len(data) > _EVENT_BYTES:
            raise LimitError(f"an event of {len(data)} bytes; {_EVENT_BYTES} is the limit")
        self._number += 1
        path = self._folder / f"{self._number:012d}-{event.event_id}"
        write_durable(path, data)
        self._paths[event.event_id] = path
        return True

    def read(self, event_id: str) -> Optional[EventFired]:
        """Return a kept event; None when its file is gone or damaged."""
        try:
            raw = read_limited(self._paths[event_id], 2 * _EVENT_BYTES)
            data = wire.unpack_body(raw, wire.LIMITS["local", "minion"])
            return records.decode(EventFired, data)
        except (KeyError, CatenaError, OSError):
            return None

    def remove(self, event_id: str) -> None:
        """Forget an event that is stored."""
        path = self._paths.pop(event_id, None)
        if path is not None:
            unlink_durable(path)

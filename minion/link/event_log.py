"""The events that wait for the master, in one append-only file (`outbox/events.log`).

`commit` writes and syncs all events of one iteration of the agent's event loop, before their
senders are notified.

That the master has stored an event is recorded without a sync of its own: with the next events, or
a moment later by `settle`. After a kill or a power failure in between, the event is sent again, as
after a lost answer; the master recognises it by its id.

The file is removed when no event waits, and rewritten when most of it is obsolete. Only ids and
offsets are in memory, so that a minion without connection for days does not grow.
"""

from __future__ import annotations

import contextlib
import re
import struct
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Union

from catena.core.errors import CatenaError, LimitError
from catena.core.files import is_misplaced, read_limited, sync_folder
from catena.core.ids import BadNameError
from catena.minion.records.own_folder import own_folder
from catena.minion.records.record_file import RecordFile, RecordSpan
from catena.transport import wire
from catena.transport.messages import EventFired

#: Older agents have a file per event in this folder, and ignore this one.
FILE = "events.log"
#: Maximum number of waiting events. Returns have no limit, since each belongs to an accepted job.
EVENT_LIMIT = 10_000
#: Maximum bytes of an event; fits a frame of the control socket.
EVENT_BYTES = 240 * 1024
#: Seconds until a stored event is recorded durably.
SETTLE_SECONDS = 1.0
#: Seconds until a write is retried after a full disk.
AGAIN_SECONDS = 15.0
#: Minimum obsolete bytes for which the file is rewritten.
WASTE_BYTES = 4 * 1024 * 1024

_LOST = "other events, or that the master has stored them: those are sent again"
_EVENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}\Z")
#: Head of a record: what it records, and the time (seconds since the epoch). The event's id
#: follows, then a zero byte, then the event's encoded body.
_HEAD = struct.Struct(">cI")
_EVENT, _STORED = b"e", b"s"
_RECORD_BYTES = EVENT_BYTES + 70


class EventLog:
    """The waiting events, oldest first.

    Args:
        cache_dir: contains the folder `outbox`.
        wall: returns the time, seconds since the epoch.

    Raises:
        OSError: the existing file cannot be read.
        CannotRemoveError: what is in the place of the file cannot be moved.
    """

    def __init__(self, cache_dir: Path, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._folder, _ = own_folder(cache_dir, "outbox", _LOST)
        self._file = RecordFile(self._folder / FILE, _RECORD_BYTES)
        #: Waiting events: their place in the file, or the file that an older agent made for them.
        self._clear_misplaced()
        self._places: Dict[str, Union[RecordSpan, Path]] = dict(_left_by_older(self._folder))
        #: Records of events for the next `commit`.
        self._fresh: Dict[str, bytes] = {}
        #: Records of stored events that are not in the file yet.
        self._marks: List[bytes] = []
        #: Bytes of the file that belong to waiting events.
        self._live = 0
        self._settle_due: Optional[float] = None
        self._load()
        #: The previous process may not have synced what it wrote.
        self._doubtful = self._live > 0

    def __len__(self) -> int:
        return len(self._places) + len(self._fresh)

    @property
    def damaged(self) -> int:
        """Return the number of damaged records that were found."""
        return self._file.damaged

    def keys(self) -> List[str]:
        """Return the ids of the waiting events, oldest first."""
        return list(self._places)

    def add(self, event: EventFired, body: wire.Buffer = b"") -> bool:
        """Add *event* to the next `commit`; return False if it is here already.

        Args:
            event: the event.
            body: its encoded body if the caller has it; otherwise it is packed here.

        Raises:
            LimitError: too many events wait, or this one is too large.
            BadNameError: its id is invalid.
        """
        event_id = event.event_id
        if not _EVENT_ID.match(event_id):
            raise BadNameError(f"{event_id[:80]!r} is not an event id")
        if event_id in self._places or event_id in self._fresh:
            return False
        if len(self) >= EVENT_LIMIT:
            raise LimitError(f"{EVENT_LIMIT} events already wait for the master")
        data = bytes(body) or wire.pack_body(event)
        if len(data) > EVENT_BYTES:
            raise LimitError(f"an event of {len(data)} bytes exceeds the limit of {EVENT_BYTES}")
        self._fresh[event_id] = self._record(_EVENT, event_id, data)
        return True

    def commit(self) -> List[str]:
        """Make the added events durable, and return their ids, oldest first.

        Raises:
            OSError: none of the events added since the last commit is stored.
        """
        if not self._fresh and not self._doubtful:
            return []
        fresh, self._fresh = self._fresh, {}
        self._write(fresh)
        self._doubtful = False
        return list(fresh)

    def read(self, event_id: str) -> Optional[wire.Packed]:
        """Return a waiting event, packed; None if it is gone or damaged."""
        place = self._places.get(event_id)
        try:
            if place is None:
                return None
            if isinstance(place, Path):
                return wire.packed_as(EventFired, read_limited(place, EVENT_BYTES))
            return wire.packed_as(EventFired, _parts(self._file.read(place)).body)
        except (CatenaError, OSError):
            return None

    def remove(self, event_id: str, now: float) -> None:
        """Remove a stored event; durable after the next commit or `settle`."""
        if self._fresh.pop(event_id, None) is not None:
            return
        place = self._places.pop(event_id, None)
        if place is None:
            return
        if isinstance(place, Path):
            place.unlink(missing_ok=True)
        else:
            self._live -= place.size
            self._marks.append(self._record(_STORED, event_id))
        if self._settle_due is None:
            self._settle_due = now + SETTLE_SECONDS

    def settle(self, now: float) -> None:
        """Record stored events durably when it is time, and remove obsolete data.

        Raises:
            OSError: it failed; it is due again later.
        """
        wasteful = self._file.size - self._live > max(WASTE_BYTES, self._live)
        due = self._settle_due is not None and now >= self._settle_due
        if not due and not wasteful:
            return
        # The next attempt, should this one fail.
        self._settle_due = now + AGAIN_SECONDS
        if not self._live:
            self._file.drop()
        elif wasteful:
            self._keep_only_what_waits()
        elif self._marks:
            self._write({})
        self._marks.clear()
        # Make the removal of older agents' files durable.
        sync_folder(self._folder)
        self._settle_due = None

    def next_due(self) -> Optional[float]:
        """Return when `settle` next has something to do; None: nothing."""
        return self._settle_due

    def close(self, now: float) -> None:
        """Settle and close the file."""
        if self._settle_due is not None:
            self._settle_due = now
            with contextlib.suppress(OSError):  # the events are sent once more then
                self.settle(now)
        self._file.close()

    def _record(self, kind: bytes, event_id: str, body: bytes = b"") -> bytes:
        at = min(max(0, int(self._wall())), 2**32 - 1)
        return b"".join((_HEAD.pack(kind, at), event_id.encode("ascii"), b"\0", body))

    def _clear_misplaced(self) -> None:
        """Move and report whatever is in the place of the file, or of an older agent's files."""
        paths = [self._folder / FILE, *_left_by_older(self._folder).values()]
        for path in paths:
            if is_misplaced(path):
                from catena.runtime import damage

                # A new name that begins with a number would look like an event again.
                near = self._folder / FILE
                damage.set_aside(self._folder.parent, path, _LOST, near)

    def _load(self) -> None:
        for path in self._folder.glob(".*"):
            # A killed writer left this file: it was never renamed, so nothing was confirmed from
            # it.
            from catena.core.removal import remove_entry

            remove_entry(path)
        for place, record in self._file.load():
            kind, _, event_id, _ = _parts(record)
            if kind == _EVENT:
                self._places.setdefault(event_id, place)
            else:
                self._places.pop(event_id, None)
        self._live = sum(p.size for p in self._places.values() if isinstance(p, RecordSpan))
        if self._file.damaged:
            self._report()
        if not self._live and self._file.exists():
            self._settle_due = 0.0

    def _report(self) -> None:
        from catena.runtime import damage

        path = self._folder / FILE
        what = f"{self._file.damaged} parts of it are damaged"
        found = damage.Damage(str(path), what, f"{len(self._places)} events", _LOST)
        with contextlib.suppress(OSError, CatenaError):  # a full disk: the file stays unchanged
            data = read_limited(path, damage.ASIDE_BYTES)
            damage.report(self._folder.parent, found, data)
            self._keep_only_what_waits()

    def _write(self, fresh: Dict[str, bytes]) -> None:
        marks = len(self._marks)
        places = self._file.add([*self._marks, *fresh.values()])
        self._marks.clear()
        for event_id, place in zip(fresh, places[marks:]):
            self._places[event_id] = place
            self._live += place.size

    def _keep_only_what_waits(self) -> None:
        kept = [
            (key, place) for key, place in self._places.items() if isinstance(place, RecordSpan)
        ]
        self._places.update(
            zip((key for key, _ in kept), self._file.rewrite([place for _, place in kept]))
        )


def waiting_since(cache_dir: Path) -> List[float]:
    """Return when each waiting event was fired, seconds since the epoch. Nothing is changed."""
    folder = cache_dir / "outbox"
    if not folder.is_dir():
        return []
    since = {key: path.lstat().st_mtime for key, path in _left_by_older(folder).items()}
    for _, record in RecordFile(folder / FILE, _RECORD_BYTES).load():
        kind, at, event_id, _ = _parts(record)
        if kind == _EVENT:
            since.setdefault(event_id, at)
        else:
            since.pop(event_id, None)
    return list(since.values())


def _left_by_older(folder: Path) -> Dict[str, Path]:
    """Return the events of an older agent, one file `<number>-<event id>` each, oldest first."""
    found = {}
    for path in sorted(folder.iterdir()):
        number, _, event_id = path.name.partition("-")
        if number.isdigit() and event_id:
            found[event_id] = path
    return found


class _Parts(NamedTuple):
    """The parsed parts of a record."""

    kind: bytes
    at: int
    event_id: str
    body: bytes


def _parts(record: bytes) -> _Parts:
    kind, at = _HEAD.unpack_from(record)
    name, _, body = record[_HEAD.size :].partition(b"\0")
    return _Parts(kind, at, name.decode("ascii", "replace"), body)

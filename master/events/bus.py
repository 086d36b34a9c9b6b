"""The durable event table, and its followers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from catena.core.clock import Clock
from catena.core.errors import RecordError, UsageError
from catena.core.events import Event, Stretch, TagTest, any_tag, is_tag
from catena.master.events import return_rows, rows
from catena.master.events.ring import EventRing
from catena.master.events.rows import EventHead, NewEventRow
from catena.master.requests.once import Once
from catena.master.store.database import Store, after_commit
from catena.master.store.metadata import WITH_ANOTHER, Ready, StoreCorruptError

LOG = logging.getLogger(__name__)

#: Number of events read from the table at a time.
PAGE = 500
#: Errors that a damaged row causes. Errors of the database itself are raised.
_DAMAGE = (RecordError, StoreCorruptError, LookupError, OverflowError, TypeError, ValueError)
#: Seconds after which followers learn how far the table is, although no event matched their tags.
QUIET_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class NewEvent:
    """The arguments of `EventBus.record`."""

    tag: str
    data: Mapping[str, Any]
    source: str = ""
    event_id: str | None = None
    #: Bytes of the packed data, if only the return's row stores it (`events.return_events`);
    #: 0: the event's row stores the data.
    shared_bytes: int = 0


#: Receives an event that is being stored, without its position, and the future of the result.
ExpectedCallback = Callable[[Event, asyncio.Future[Event]], None]


@dataclass(frozen=True, slots=True)
class _Stored:
    """An event with its position, and the bytes of its data as stored."""

    event: Event
    size: int


class _DamagedRowError(Exception):
    """A row of the event table is damaged; the message says how."""


class _Unreadable(NamedTuple):
    """A damaged row of the event table."""

    seq: int
    tag: str
    error: str


@dataclass(frozen=True, slots=True)
class _Found:
    """The events at some positions."""

    events: list[Event]
    #: Rows that are damaged, so that their events can't be delivered.
    unreadable: list[_Unreadable] = field(default_factory=list)


T = TypeVar("T")


class EventBus:
    """Records events in the transaction that caused them, and delivers them after its commit.

    One writer commits everything. Positions (`seq`) therefore become visible in order, and a
    cursor never skips an event.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ring = EventRing()
        self._last = 0
        #: Positions of damaged rows that were reported.
        self._unreadable: set[int] = set()
        self._on_expected: ExpectedCallback | None = None
        #: Followers that have read everything -> test for the tags that they follow.
        self._waiting: dict[asyncio.Future[None], TagTest] = {}
        #: Timer that wakes all followers, QUIET_SECONDS after the first event that matched none.
        self._quiet_timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Load the position of the table's end; call it before anything is recorded."""
        self._last = await self._store.read(rows.last_seq)

    @property
    def last(self) -> int:
        """Return the position of the newest event."""
        return self._last

    def record(
        self,
        conn: sa.Connection,
        tag: str,
        data: Mapping[str, Any],
        source: str = "",
        event_id: str | None = None,
    ) -> Event:
        """Store an event in the running transaction; followers see it after the commit.

        Args:
            conn: the connection that a function of `Store.post` got.
            tag: 1 to 1024 characters, no control characters.
            data: plain data.
            source: minion id, or "" for the master's own.
            event_id: a minion's own number of its event; unique per source.

        Raises:
            UsageError: *tag* can't be a tag.
            sqlalchemy.exc.IntegrityError: *source* has sent *event_id* before.
        """
        return self._record(conn, NewEvent(tag, data, source, event_id), self._now())

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _record(self, conn: sa.Connection, new: NewEvent, now: float) -> Event:
        row = _row(new, now)
        (seq,) = rows.insert(conn, [row])
        stored = _stored(seq, new, row, _stamp(now))
        after_commit(conn, lambda: self._publish([stored]))
        return stored.event

    def record_many(self, conn: sa.Connection, news: Sequence[NewEvent]) -> Sequence[int]:
        """Store events in the running transaction, in their order; as `record` for each.

        Returns:
            Their positions.

        Raises:
            UsageError, sqlalchemy.exc.IntegrityError: as `record`, for any of them.
        """
        if not news:
            return ()
        now = self._now()
        made = [_row(new, now) for new in news]
        seqs = rows.insert(conn, made)
        at = _stamp(now)
        stored = [
            _stored(seq, new, row, at) for seq, new, row in zip(seqs, news, made, strict=True)
        ]
        after_commit(conn, lambda: self._publish(stored))
        return seqs

    def has_event(self, conn: sa.Connection, source: str, event_id: str) -> bool:
        """Return whether a minion's event is stored."""
        return rows.is_known(conn, source, event_id)

    async def fire(self, tag: str, data: Mapping[str, Any], source: str = "") -> Event:
        """Store an event by itself; return it once it is durable.

        Raises:
            UsageError: *tag* can't be a tag.
        """
        new, now = NewEvent(tag, data, source), self._now()
        return await self._fire(new, now, lambda conn: self._record(conn, new, now))

    async def fire_once(
        self, once: Once, tag: str, data: Mapping[str, Any], answer: Callable[[Event], T]
    ) -> T:
        """Store an event for a request; return the reply to the request once it is durable.

        Args:
            once: the request.
            tag: as in `fire`.
            data: as in `fire`.
            answer: makes the reply from the stored event.

        Raises:
            UsageError: as in `fire`, or a different request has used the same key.
        """
        new, now = NewEvent(tag, data), self._now()
        answers: list[T] = []

        def store(conn: sa.Connection) -> Event:
            # This event is returned for a repeated request, whose event is stored already.
            event = Event(0, tag, dict(data), _stamp(now), "")

            def record(conn: sa.Connection) -> T:
                nonlocal event
                event = self._record(conn, new, now)
                return answer(event)

            answers.append(once.wrap(record)(conn))
            return event

        await self._fire(new, now, store)
        return answers[-1]

    async def _fire(
        self, new: NewEvent, now: float, store: Callable[[sa.Connection], Event]
    ) -> Event:
        stored = self._store.post(store)
        if self._on_expected is not None and is_tag(new.tag):
            event = Event(0, new.tag, dict(new.data), _stamp(now), new.source)
            self._on_expected(event, stored)
        return await stored

    def on_expected(self, callback: ExpectedCallback) -> None:
        """Call *callback* with each event of `fire` and `fire_once` as soon as it is queued."""
        self._on_expected = callback

    async def subscribe(self, tag: str = "*", after: int = -1) -> AsyncIterator[Event]:
        """Yield events whose tag matches the glob *tag* (`*` crosses slashes), for ever.

        Args:
            tag: shell-style pattern.
            after: position after which to begin; -1: only events from now on.
        """
        async for stretch in self.follow((tag,), after):
            for event in stretch.events:
                yield event

    async def follow(self, tags: Sequence[str], after: int = -1) -> AsyncIterator[Stretch]:
        """Yield the events after a position, one range at a time, for ever.

        Args:
            tags: shell-style patterns. Other events are skipped; those no longer in memory are not
                even read.
            after: as of `subscribe`.
        """
        matches = any_tag(tags)
        position = self._last if after < 0 else after
        while True:
            if position >= self._last:
                await self._wait(matches)
                continue
            newest = self._ring.after(position, PAGE)
            if newest is None:
                stretch = await self._read_page(position, matches)
            else:
                found = [event for event in newest if matches(event.tag)]
                stretch = Stretch(newest[-1].seq, found)
            position = stretch.upto
            yield stretch

    async def events_at(self, positions: Sequence[int]) -> Sequence[Event]:
        """Return the stored events at ascending positions; leave out deleted ones."""
        found = await self._store.read(lambda conn: _events(conn, positions))
        await self._report_unreadable(found.unreadable)
        return found.events

    async def notify_followers(self) -> None:
        """Notify waiting followers at once how far the table is.

        Call it before you read a follower's position: the request for the position may itself have
        stored an event.
        """
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
        self._wake_all()
        # Let the followers run first.
        await asyncio.sleep(0)

    async def cursor(self, consumer: str) -> int:
        """Return the stored position of *consumer*; a new consumer begins at the table's end."""
        found = await self._store.read(lambda conn: rows.cursor(conn, consumer))
        if found is not None:
            return found
        await self.advance(consumer, self._last)
        return self._last

    async def advance(self, consumer: str, seq: int) -> None:
        """Store that *consumer* has processed everything up to *seq*."""
        await self._store.post(lambda conn: rows.move_cursor(conn, consumer, seq), lazy=True)

    def _publish(self, news: Sequence[_Stored]) -> None:
        for stored in news:
            self._ring.add(stored.event, stored.size)
        self._last = news[-1].event.seq
        if not self._waiting:
            return
        tags = [stored.event.tag for stored in news]
        self._wake(lambda matches: any(map(matches, tags)))
        if self._quiet_timer is None:
            loop = asyncio.get_running_loop()
            self._quiet_timer = loop.call_later(QUIET_SECONDS, self._wake_all)

    async def _wait(self, matches: TagTest) -> None:
        """Wait for an event that matches, or until QUIET_SECONDS after another event."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = matches
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)

    def _wake(self, is_concerned: Callable[[TagTest], bool]) -> None:
        """Wake the followers whose test for tags satisfies *is_concerned*."""
        for waiter, matches in self._waiting.items():
            if not waiter.done() and is_concerned(matches):
                waiter.set_result(None)

    def _wake_all(self) -> None:
        self._quiet_timer = None
        self._wake(lambda matches: True)

    async def _read_page(self, position: int, matches: TagTest) -> Stretch:
        """Read the next page after a position from the table."""
        # Events that are neither in memory nor in the table were pruned.
        first = self._ring.first
        pruned_upto = self._last if first is None else first - 1

        def read(conn: sa.Connection) -> tuple[int, _Found]:
            heads, damaged = _heads(conn, position)
            found = _events(conn, [seq for seq, tag in heads if matches(tag)])
            found.unreadable.extend(damaged)
            seen = [*(head.seq for head in heads), *(row.seq for row in damaged)]
            return max(seen, default=max(position, pruned_upto)), found

        upto, found = await self._store.read(read)
        await self._report_unreadable(found.unreadable)
        return Stretch(upto, found.events)

    async def _report_unreadable(self, damaged: Sequence[_Unreadable]) -> None:
        """Log each damaged row once, and record an event about it, which `doctor` shows."""
        for row in damaged:
            if row.seq in self._unreadable:
                continue
            self._unreadable.add(row.seq)
            LOG.error("event %d (%s) can't be read: %s; nothing reacts to it", *row)
            await self.fire(rows.UNREADABLE, row._asdict())


def _row(new: NewEvent, now: float) -> NewEventRow:
    if not is_tag(new.tag):
        raise UsageError(f"{new.tag[:80]!r} can't be an event's tag")
    data = WITH_ANOTHER if new.shared_bytes else Ready.of(dict(new.data))
    return NewEventRow(new.tag, data, now, new.source, new.event_id)


def _stored(seq: int, new: NewEvent, row: NewEventRow, at: str) -> _Stored:
    event = Event(seq, new.tag, dict(new.data), at, new.source)
    return _Stored(event, new.shared_bytes or len(row.data.packed))


def _heads(
    conn: sa.Connection, position: int, limit: int = PAGE
) -> tuple[list[EventHead], list[_Unreadable]]:
    """Return the next events after *position*, and the rows whose tag is damaged."""
    with contextlib.suppress(_DamagedRowError), _damage_named():
        heads = rows.heads(conn, position, limit)
        if all(isinstance(head.tag, str) for head in heads):
            return heads, []
    readable, damaged = [], []
    for seq, packed in rows.packed_heads(conn, position, limit):
        try:
            readable.append(EventHead(seq, packed.decode()))
        except UnicodeDecodeError as error:
            shown = packed.decode(errors="backslashreplace")
            damaged.append(_Unreadable(seq, shown, f"its tag is no text: {error}"))
    return readable, damaged


def _events(conn: sa.Connection, positions: Sequence[int]) -> _Found:
    """Return the stored events at *positions*; after damage, read them one by one."""
    with contextlib.suppress(_DamagedRowError), _damage_named():
        return _Found(_readable(conn, positions))
    found = _Found([])
    for position in positions:
        try:
            with _damage_named():
                found.events.extend(_readable(conn, [position]))
        except _DamagedRowError as error:
            ((_, packed),) = rows.packed_heads(conn, position - 1, 1)
            tag = packed.decode(errors="backslashreplace")
            found.unreadable.append(_Unreadable(position, tag, str(error)))
    return found


@contextlib.contextmanager
def _damage_named() -> Iterator[None]:
    """Raise _DamagedRowError for errors of a damaged row; errors of the database pass."""
    try:
        yield
    except _DAMAGE as error:
        raise _DamagedRowError(str(error)) from error
    except sa.exc.OperationalError as error:
        if rows.is_damaged_text(error):
            raise _DamagedRowError(str(error.orig)) from error
        raise


def _readable(conn: sa.Connection, positions: Sequence[int]) -> list[Event]:
    """Return the stored events at *positions*, also those whose data is in a return.

    Raises:
        RecordError, StoreCorruptError, LookupError, OverflowError, TypeError, ValueError: a row
            is damaged.
        sqlalchemy.exc.OperationalError: text of a row is damaged, or the database can't be used.
    """
    stored = rows.at_positions(conn, positions)
    shared = [EventHead(row.seq, row.tag) for row in stored if row.data is None]
    data = return_rows.data(conn, shared)
    for row in stored:
        if row.data is not None and not isinstance(row.data, dict):
            raise ValueError(f"its data is no mapping but {type(row.data).__name__}")
        if not (isinstance(row.tag, str) and isinstance(row.source, str)):
            raise ValueError("its tag or source is no text")
    return [
        Event(
            row.seq,
            row.tag,
            data.get(row.seq, {}) if row.data is None else row.data,
            _stamp(row.at),
            row.source,
        )
        for row in stored
    ]


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()

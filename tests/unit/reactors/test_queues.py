"""Queues of events: order, limited memory, and events that are read again."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Sequence

import pytest

from catena.core.errors import TryLaterError
from catena.core.events import Event
from catena.reactors import queues
from catena.reactors.queues import EventQueue, QueuedEvent, QueueMemory


class Table:
    """The events that are stored, and the requests to read some of them again."""

    def __init__(self) -> None:
        self.stored: dict[int, Event] = {}
        self.reads: list[list[int]] = []
        self.during_read: Callable[[], None] = lambda: None
        self.down = False
        #: Positions whose rows are damaged.
        self.damaged: set[int] = set()

    def add(self, seq: int, text: str = "") -> QueuedEvent:
        event = self.stored[seq] = Event(seq, "go/x", {"text": text}, "", "web1")
        return QueuedEvent.of(event, ("f.sls",))

    async def read(self, positions: Sequence[int]) -> list[QueuedEvent]:
        if self.down:
            raise TryLaterError("the disk is away")
        self.reads.append(list(positions))
        if self.damaged & set(positions):
            raise ValueError("no MessagePack")
        found = [self.stored[seq] for seq in positions if seq in self.stored]
        await asyncio.sleep(0)
        self.during_read()
        return [QueuedEvent.of(event, ("f.sls",)) for event in found]


@pytest.fixture
def table() -> Table:
    return Table()


def a_queue(table: Table, memory: QueueMemory | None = None) -> EventQueue:
    return EventQueue("web1", table.read, memory or QueueMemory())


async def drained(queue: EventQueue) -> list[int]:
    """Remove all events; return their positions in the order of the queue."""
    found = []
    while (due := await queue.head()) is not None:
        assert queue.first == due.event.seq
        found.append(due.event.seq)
        queue.remove_head()
    return found


def held(queue: EventQueue) -> int:
    """Return the number of whole events."""
    return len(queue._whole)


async def test_short_queue_reads_no_event_again(table: Table) -> None:
    queue = a_queue(table)
    for seq in range(1, queues.QUEUE_EVENTS + 1):
        queue.put(table.add(seq))
    assert await drained(queue) == list(range(1, queues.QUEUE_EVENTS + 1))
    assert queue.is_empty()
    assert table.reads == []


async def test_long_queue_holds_a_limited_number_of_events_in_order(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "QUEUE_EVENTS", 10)
    queue = a_queue(table)
    # Distances of one byte, of two and of five.
    seqs = [*range(1, 101), *range(300, 10_000, 200), 10**10, 10**10 + 1]
    for seq in seqs:
        queue.put(table.add(seq))
    found = []
    while (due := await queue.head()) is not None:
        assert held(queue) <= 10
        assert queue.first == due.event.seq
        found.append(due.event.seq)
        queue.remove_head()
    assert found == seqs
    assert max(map(len, table.reads)) == 10


async def test_queue_of_large_events_holds_a_limited_number_of_bytes(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "QUEUE_BYTES", 1000)
    queue = a_queue(table)
    # The fourth one is larger than the limit.
    for seq in range(1, 41):
        queue.put(table.add(seq, "x" * (5000 if seq == 4 else 90)))
    assert held(queue) == 3
    found = []
    while (due := await queue.head()) is not None:
        found.append(due.event.seq)
        assert held(queue) <= 11
        queue.remove_head()
    assert found == list(range(1, 41))


async def test_deferred_event_takes_about_one_byte(table: Table) -> None:
    queue = a_queue(table)
    for seq in range(1, queues.QUEUE_EVENTS + 1):
        queue.put(table.add(seq))
    due = table.add(queues.QUEUE_EVENTS + 1)
    many = 50 * queues.QUEUE_EVENTS
    tracemalloc.start()
    try:
        for _ in range(many):
            queue.put(due)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 2 * many


async def test_event_that_arrives_during_a_read_comes_after_the_read_ones(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "QUEUE_EVENTS", 4)
    queue = a_queue(table)
    arriving = [9, 8, 7]

    def arrive() -> None:
        if arriving:
            queue.put(table.add(arriving.pop()))

    table.during_read = arrive
    for seq in range(1, 7):
        queue.put(table.add(seq))
    assert await drained(queue) == list(range(1, 10))
    assert table.reads == [[5, 6], [7], [8], [9]]
    assert queue.is_empty()


async def test_queues_share_a_limit_that_stops_none_of_them(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "QUEUE_EVENTS", 4)
    monkeypatch.setattr(queues, "FULL_QUEUES", 2)
    memory = QueueMemory()
    many = [a_queue(table, memory) for _ in range(5)]
    for seq in range(1, 31):
        many[seq % 5].put(table.add(seq))
    assert [held(queue) for queue in many] == [1, 2, 2, 2, 1]
    # Only one event at a time is read while the queues hold as many as they may.
    for queue in (many[0], many[4]):
        await queue.head()
        queue.remove_head()
        assert await queue.head() is not None
        assert held(queue) == 1
    assert sum(map(held, many)) == 8
    assert [await drained(queue) for queue in many] == [
        [10, 15, 20, 25, 30], [1, 6, 11, 16, 21, 26], [2, 7, 12, 17, 22, 27],
        [3, 8, 13, 18, 23, 28], [9, 14, 19, 24, 29],
    ]  # fmt: skip
    assert memory.fits(8, 2 * queues.QUEUE_BYTES)
    assert not memory.fits(9, 0)


async def test_events_that_cannot_be_read_stay_in_the_queue(
    table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queues, "QUEUE_EVENTS", 1)
    queue = a_queue(table)
    for seq in (1, 2, 3):
        queue.put(table.add(seq))
    assert await queue.head() is not None
    queue.remove_head()
    table.down = True
    assert await queue.head() is None
    assert (queue.is_empty(), queue.first) == (False, 2)
    assert (
        "cannot read waiting events of web1 from position 2 again yet: the disk is away"
        in caplog.text
    )
    table.down = False
    assert await drained(queue) == [2, 3]


async def test_deleted_events_are_reported_with_their_number(
    table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queues, "QUEUE_EVENTS", 3)
    queue = a_queue(table)
    for seq in range(1, 10):
        queue.put(table.add(seq))
    for seq in (4, 6, 7, 8, 9):
        del table.stored[seq]
    assert await drained(queue) == [1, 2, 3, 5]
    assert queue.is_empty()
    reports = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert [report.partition(":")[0] for report in reports] == [
        "no reaction to 2 events of web1", "no reaction to 3 events of web1",
    ]  # fmt: skip
    assert "(positions 7 to 9)" in reports[1]


async def test_flood_is_logged_once_until_the_queue_has_drained(
    table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queues, "QUEUE_EVENTS", 2)
    queue = a_queue(table)
    for flood in (1, 2):
        for seq in range(10 * flood, 10 * flood + 10):
            queue.put(table.add(seq))
        assert caplog.text.count("events of web1 arrive faster than the reactor") == flood
        await drained(queue)


async def test_unreadable_event_is_named_and_passed_over(
    table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queues, "QUEUE_EVENTS", 10)
    queue = a_queue(table)
    for seq in range(1, 41):
        queue.put(table.add(seq))
    table.damaged = {17}
    # The events before the damaged one do not wait.
    assert await drained(queue) == list(range(1, 17))
    assert "from position 17 again yet" in caplog.text
    for _ in range(queues.READ_TRIES - 2):
        assert await queue.head() is None
    assert await drained(queue) == list(range(18, 41))
    assert queue.is_empty()
    assert "the event of web1 at position 17 can't be read: no MessagePack" in caplog.text
    assert "no reaction to 1 events of web1" in caplog.text


async def test_no_event_is_passed_over_while_the_whole_table_is_unreadable(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "QUEUE_EVENTS", 10)
    queue = a_queue(table)
    for seq in range(1, 41):
        queue.put(table.add(seq))
    table.damaged = set(range(41))
    assert await drained(queue) == list(range(1, 11))
    for _ in range(3 * queues.READ_TRIES):
        assert await queue.head() is None
    table.damaged = set()
    assert await drained(queue) == list(range(11, 41))

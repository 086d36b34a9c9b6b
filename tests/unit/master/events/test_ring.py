"""Limits of the newest events in memory, in number and in bytes."""

from __future__ import annotations

from catena.core.events import Event
from catena.master.events.ring import EventRing


def filled(ring: EventRing, last: int, size: int = 10) -> EventRing:
    for seq in range(1, last + 1):
        ring.add(Event(seq, "app/a", {}, ""), size)
    return ring


def seqs(ring: EventRing, after: int, limit: int = 100) -> list[int] | None:
    found = ring.after(after, limit)
    return None if found is None else [event.seq for event in found]


def test_ring_returns_the_oldest_events_after_a_position_first() -> None:
    ring = filled(EventRing(), 10)
    assert seqs(ring, 0, 3) == [1, 2, 3]
    assert seqs(ring, 8) == [9, 10]
    assert seqs(ring, 10) == []


def test_ring_gives_none_when_requested_events_were_dropped() -> None:
    ring = filled(EventRing(count=4), 10)
    assert ring.first == 7
    assert seqs(ring, 6) == [7, 8, 9, 10]
    assert seqs(ring, 5) is None


def test_ring_holds_fewer_large_events() -> None:
    ring = filled(EventRing(count=100, size=25), 10)
    assert seqs(ring, 8) == [9, 10]
    assert ring.first == 9


def test_ring_frees_space_of_dropped_events() -> None:
    ring = filled(EventRing(count=100, size=25), 10, size=25)
    for seq in range(11, 16):
        ring.add(Event(seq, "app/a", {}, ""), 5)
    assert ring.first == 11


def test_oversized_event_is_kept_until_the_next_one() -> None:
    ring = EventRing(size=25)
    ring.add(Event(1, "app/a", {}, ""), 1000)
    assert seqs(ring, 0) == [1]
    ring.add(Event(2, "app/a", {}, ""), 10)
    assert ring.first == 2


def test_empty_ring_returns_nothing() -> None:
    assert EventRing().first is None
    assert EventRing().after(0, 10) is None

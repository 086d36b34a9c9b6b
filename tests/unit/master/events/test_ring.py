"""The newest events in memory: bounded in number and in bytes, whatever they carry."""

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


def test_the_oldest_after_a_position_come_first() -> None:
    ring = filled(EventRing(), 10)
    assert seqs(ring, 0, 3) == [1, 2, 3]
    assert seqs(ring, 8) == [9, 10]
    assert seqs(ring, 10) == []


def test_what_is_gone_is_not_passed_over() -> None:
    ring = filled(EventRing(count=4), 10)
    assert ring.first == 7
    assert seqs(ring, 6) == [7, 8, 9, 10]
    assert seqs(ring, 5) is None


def test_large_events_are_fewer() -> None:
    ring = filled(EventRing(count=100, size=25), 10)
    assert seqs(ring, 8) == [9, 10]
    assert ring.first == 9


def test_room_comes_back_with_what_is_forgotten() -> None:
    ring = filled(EventRing(count=100, size=25), 10, size=25)
    for seq in range(11, 16):
        ring.add(Event(seq, "app/a", {}, ""), 5)
    assert ring.first == 11


def test_an_event_over_the_bound_is_kept_until_the_next() -> None:
    ring = EventRing(size=25)
    ring.add(Event(1, "app/a", {}, ""), 1000)
    assert seqs(ring, 0) == [1]
    ring.add(Event(2, "app/a", {}, ""), 10)
    assert ring.first == 2


def test_an_empty_ring_knows_nothing() -> None:
    assert EventRing().first is None
    assert EventRing().after(0, 10) is None

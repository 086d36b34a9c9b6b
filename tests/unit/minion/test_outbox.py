from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.errors import LimitError
from catena.core.ids import BadNameError
from catena.minion.outbox import RETRY_LIMIT_SECONDS, RETRY_SECONDS, EventFiles, Outbox
from catena.transport.messages import EventFired


class Link:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.room = 1000

    def sayer(self, key: str) -> object:
        def say() -> bool:
            if len(self.said) >= self.room:
                return False
            self.said.append(key)
            return True

        return say


def filled(link: Link, *keys: str, window: int = 16) -> Outbox:
    outbox = Outbox(window)
    for key in keys:
        outbox.add(key, link.sayer(key), 0.0)  # type: ignore[arg-type]
    return outbox


def test_nothing_is_said_without_a_master() -> None:
    link = Link()
    outbox = filled(link, "a")
    outbox.service(0.0)
    assert link.said == [] and outbox.next_due() is None


def test_it_is_said_again_ever_more_seldom_until_it_is_acked() -> None:
    link = Link()
    outbox = filled(link, "a")
    outbox.connected(0.0)
    outbox.service(0.0)
    outbox.service(RETRY_SECONDS - 0.1)
    assert link.said == ["a"]
    now = 0.0
    for _ in range(20):
        due = outbox.next_due()
        assert due is not None and due - now <= RETRY_LIMIT_SECONDS
        now = due
        outbox.service(now)
    assert len(link.said) == 21
    assert outbox.acked("a") and not outbox.acked("a")
    outbox.service(now + 1e6)
    assert len(link.said) == 21


def test_a_new_connection_hears_everything_again_at_once() -> None:
    link = Link()
    outbox = filled(link, "a", "b")
    outbox.connected(0.0)
    outbox.service(0.0)
    outbox.lost()
    outbox.connected(1.0)
    outbox.service(1.0)
    assert link.said == ["a", "b", "a", "b"]


def test_no_more_than_the_window_flies_and_acks_let_the_next_out() -> None:
    link = Link()
    outbox = filled(link, "a", "b", "c", window=2)
    outbox.connected(0.0)
    outbox.service(0.0)
    assert link.said == ["a", "b"]
    outbox.acked("a")
    outbox.service(0.1)
    assert link.said == ["a", "b", "c"]


def test_a_full_link_is_asked_again_soon_and_in_order() -> None:
    link = Link()
    link.room = 1
    outbox = filled(link, "a", "b", "c")
    outbox.connected(0.0)
    outbox.service(0.0)
    due = outbox.next_due()
    assert link.said == ["a"] and due is not None and due < 0.2
    link.room = 9
    outbox.service(due)
    assert link.said == ["a", "b", "c"]


def test_adding_twice_says_once() -> None:
    link = Link()
    outbox = filled(link, "a", "a")
    outbox.connected(0.0)
    outbox.service(0.0)
    assert link.said == ["a"]


def event(number: int) -> EventFired:
    return EventFired(f"{number:032x}", "my/tag", {"number": number})


def test_events_are_kept_in_order_until_they_are_stored(tmp_path: Path) -> None:
    files = EventFiles(tmp_path)
    for number in range(12):
        assert files.add(event(number))
    assert not files.add(event(3))
    again = EventFiles(tmp_path)
    assert again.keys() == [event(number).event_id for number in range(12)]
    assert again.read(event(5).event_id) == event(5)
    again.remove(event(5).event_id)
    assert again.read(event(5).event_id) is None
    assert len(EventFiles(tmp_path).keys()) == 11


def test_a_half_written_event_is_forgotten(tmp_path: Path) -> None:
    EventFiles(tmp_path).add(event(1))
    (tmp_path / "outbox" / ".000000000002-abc.77.new").write_bytes(b"half")
    assert EventFiles(tmp_path).keys() == [event(1).event_id]
    assert len(list((tmp_path / "outbox").iterdir())) == 1


def test_an_event_that_can_not_travel_is_refused_at_once(tmp_path: Path) -> None:
    files = EventFiles(tmp_path)
    with pytest.raises(LimitError):
        files.add(EventFired("a", "t", {"x": "y" * 300_000}))
    with pytest.raises(BadNameError):
        files.add(EventFired("../../etc/x", "t", {}))
    assert files.keys() == []

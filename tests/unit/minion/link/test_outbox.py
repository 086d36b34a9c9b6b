from __future__ import annotations

from collections.abc import Callable

from catena.minion.link.outbox import LARGEST_WINDOW, RETRY_LIMIT_SECONDS, RETRY_SECONDS, Outbox


class Link:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.room = 1000

    def sayer(self, key: str) -> Callable[[], bool]:
        def say() -> bool:
            if len(self.said) >= self.room:
                return False
            self.said.append(key)
            return True

        return say


def filled(link: Link, *keys: str, window: int = 16) -> Outbox:
    outbox = Outbox(window)
    for key in keys:
        outbox.add(key, link.sayer(key))
    return outbox


def test_outbox_sends_nothing_without_a_master() -> None:
    link = Link()
    outbox = filled(link, "a")
    outbox.service(0.0)
    assert link.said == [] and outbox.next_due() is None


def test_outbox_resends_with_growing_delays_until_acked() -> None:
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


def test_outbox_resends_everything_on_a_new_connection() -> None:
    link = Link()
    outbox = filled(link, "a", "b")
    outbox.connected(0.0)
    outbox.service(0.0)
    outbox.lost()
    outbox.connected(1.0)
    outbox.service(1.0)
    assert link.said == ["a", "b", "a", "b"]


def test_outbox_sends_at_most_a_window_and_each_ack_allows_the_next() -> None:
    link = Link()
    outbox = filled(link, "a", "b", "c", window=2)
    outbox.connected(0.0)
    outbox.service(0.0)
    assert link.said == ["a", "b"]
    outbox.acked("a")
    outbox.service(0.1)
    assert link.said == ["a", "b", "c"]


def test_outbox_retries_a_full_link_soon_and_in_order() -> None:
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


def test_entry_added_twice_is_sent_once() -> None:
    link = Link()
    outbox = filled(link, "a", "a")
    outbox.connected(0.0)
    outbox.service(0.0)
    assert link.said == ["a"]


def test_window_grows_with_each_ack_and_is_small_again_on_a_new_connection() -> None:
    link = Link()
    keys = [str(number) for number in range(300)]
    outbox = filled(link, *keys)
    outbox.connected(0.0)
    most = 0
    for acked, key in enumerate(keys[:200]):
        outbox.service(0.0)
        most = max(most, len(link.said) - acked)
        outbox.acked(key)
    assert most == LARGEST_WINDOW
    outbox.connected(1.0)
    link.said.clear()
    outbox.service(1.0)
    assert link.said == keys[200:216]


def test_entry_that_cannot_be_sent_takes_no_place_in_the_window() -> None:
    link = Link()
    outbox = filled(link, "a", window=1)
    outbox.add("lost", lambda: outbox.acked("lost"))
    outbox.add("b", link.sayer("b"))
    outbox.connected(0.0)
    outbox.service(0.0)
    outbox.acked("a")
    outbox.service(0.0)
    assert link.said == ["a", "b"] and len(outbox) == 1

"""Watchers of running jobs get each item; a slow one loses only what is stored as well."""

from __future__ import annotations

from catena.client.replies.jobs import JobItem, JobOutputItem, JobPresenceItem
from catena.master.events.feed import UNREAD_LIMIT, UNREAD_OUTPUT_LIMIT, JobFeed

JID = "20260105080000000000"


def output(number: int, text: str) -> JobOutputItem:
    return JobOutputItem("web1", number, "stdout", text, 0)


async def unread(items: list[JobItem]) -> list[JobItem]:
    """Publish items of a job to a watcher that has read nothing yet; return what it gets then."""
    feed = JobFeed()
    with feed.watch(JID) as watch:
        for item in items:
            feed.publish(JID, item)
        return await watch.next_items(1.0)


async def test_watcher_gets_items_in_their_order() -> None:
    items: list[JobItem] = [output(1, "a"), JobPresenceItem("web1", False), output(2, "b")]
    assert await unread(items) == items


async def test_unread_output_is_limited_by_its_number() -> None:
    last = JobPresenceItem("web1", False)
    found = await unread([*(output(n, "") for n in range(UNREAD_LIMIT + 5)), last])
    assert len(found) == UNREAD_LIMIT + 1
    assert found[-1] == last


async def test_unread_output_is_limited_by_its_size() -> None:
    half = "x" * (UNREAD_OUTPUT_LIMIT // 2)
    last = JobPresenceItem("web1", False)
    found = await unread([output(1, half), output(2, half), output(3, "x"), last])
    assert found == [output(1, half), output(2, half), last]


async def test_watcher_that_has_read_gets_output_again() -> None:
    whole = output(1, "x" * UNREAD_OUTPUT_LIMIT)
    feed = JobFeed()
    with feed.watch(JID) as watch:
        feed.publish(JID, whole)
        assert await watch.next_items(1.0) == [whole]
        feed.publish(JID, whole)
        assert await watch.next_items(1.0) == [whole]

"""Live items of running jobs for their watchers."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from catena.client.replies.jobs import JobItem, JobOutputItem, JobProgressItem

#: Maximum number of unread items of a slow watcher; further progress is dropped (it is stored).
UNREAD_LIMIT = 10_000
#: Maximum characters of a slow watcher's unread output; further output is dropped (it is stored).
UNREAD_OUTPUT_LIMIT = 4 * 1024 * 1024
#: Types of items that are also stored and are dropped first for a slow watcher.
_DROPPED_FIRST = (JobProgressItem, JobOutputItem)


class Watch:
    """One watcher's items of one job. Close it, or leave its `with` block, when done."""

    def __init__(self, feed: JobFeed, jid: str) -> None:
        self._feed = feed
        self._jid = jid
        self._items: list[JobItem] = []
        #: Characters of the output in the items.
        self._output = 0
        self._news = asyncio.Event()
        # One timer serves several calls of `next_items`, because most of them wait only a moment.
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.close(self._jid, self)
        if self._timer is not None:
            self._timer.cancel()

    async def next_items(self, seconds: float) -> list[JobItem]:
        """Return the items since the last call; wait at most *seconds* for the first one.

        It may return earlier without items, at the time limit of an earlier call.
        """
        if not self._items:
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(seconds, self._time_is_over)
            self._news.clear()
            await self._news.wait()
        items, self._items, self._output = self._items, [], 0
        return items

    def _time_is_over(self) -> None:
        self._timer = None
        self._news.set()

    def put(self, item: JobItem) -> None:
        """Add an item for the watcher (called by the feed)."""
        output = len(item.text) if isinstance(item, JobOutputItem) else 0
        too_many = len(self._items) >= UNREAD_LIMIT
        if isinstance(item, _DROPPED_FIRST) and (
            too_many or self._output + output > UNREAD_OUTPUT_LIMIT
        ):
            return
        self._items.append(item)
        self._output += output
        self._news.set()


class JobFeed:
    """Passes each item of a job to its current watchers. Used in the loop's thread only."""

    def __init__(self) -> None:
        self._watches: defaultdict[str, set[Watch]] = defaultdict(set)

    def watch(self, jid: str) -> Watch:
        """Return a watch that receives every item published from now on."""
        watch = Watch(self, jid)
        self._watches[jid].add(watch)
        return watch

    def close(self, jid: str, watch: Watch) -> None:
        """End a watch."""
        watches = self._watches.get(jid)
        if watches is None:
            return
        watches.discard(watch)
        if not watches:
            del self._watches[jid]

    def is_watched(self, jid: str) -> bool:
        """Return whether *jid* has watchers."""
        return jid in self._watches

    def publish(self, jid: str, item: JobItem) -> None:
        """Pass *item* to the watchers of *jid*."""
        for watch in self._watches.get(jid, ()):
            watch.put(item)

"""Live items of running jobs, for those who watch."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

#: Progress items that a slow watcher may have unread; more are dropped for it (they are stored).
UNREAD_LIMIT = 10_000
#: Types of items that are stored as well, and that a slow watcher loses first.
_DROPPED_FIRST = frozenset({"progress", "output"})


class Watch:
    """One watcher's items of one job. Close it, or leave its `with` block, when done."""

    def __init__(self, feed: JobFeed, jid: str) -> None:
        self._feed = feed
        self._jid = jid
        self._items: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        #: Armed once for all items that come before it: most wait for less than a moment.
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.close(self._jid, self)
        if self._timer is not None:
            self._timer.cancel()

    async def some(self, seconds: float) -> list[dict[str, Any]]:
        """Return what has come since, waiting for the first item at most *seconds*.

        Nothing may come back sooner, too: when the time of an earlier question is over.
        """
        if not self._items:
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(seconds, self._time_is_over)
            self._news.clear()
            await self._news.wait()
        items, self._items = self._items, []
        return items

    def _time_is_over(self) -> None:
        self._timer = None
        self._news.set()

    def put(self, item: dict[str, Any]) -> None:
        """Keep an item until it is read (called by the feed)."""
        if item["type"] not in _DROPPED_FIRST or len(self._items) < UNREAD_LIMIT:
            self._items.append(item)
            self._news.set()


class JobFeed:
    """Hands each item of a job to whoever watches it now. Used in the loop's thread only."""

    def __init__(self) -> None:
        self._watches: defaultdict[str, set[Watch]] = defaultdict(set)

    def watch(self, jid: str) -> Watch:
        """Return a watch that gets every item published from now on."""
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
        """Return whether anybody would get what is published of *jid*."""
        return jid in self._watches

    def publish(self, jid: str, item: dict[str, Any]) -> None:
        """Hand *item* to the watchers of *jid*."""
        for watch in self._watches.get(jid, ()):
            watch.put(item)

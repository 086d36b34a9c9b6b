"""Live items of running jobs, for those who watch."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

#: Progress items that a slow watcher may have unread; more are dropped for it (they are stored).
UNREAD_LIMIT = 10_000


class Watch:
    """One watcher's items of one job. Close it, or leave its `with` block, when done."""

    def __init__(self, feed: JobFeed, jid: str) -> None:
        self._feed = feed
        self._jid = jid
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.close(self._jid, self)

    async def next(self) -> dict[str, Any]:
        """Return the next item, waiting for it."""
        return await self._queue.get()

    def put(self, item: dict[str, Any]) -> None:
        """Queue an item (called by the feed)."""
        if item["type"] != "progress" or self._queue.qsize() < UNREAD_LIMIT:
            self._queue.put_nowait(item)


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

    def publish(self, jid: str, item: dict[str, Any]) -> None:
        """Hand *item* to the watchers of *jid*."""
        for watch in self._watches.get(jid, ()):
            watch.put(item)

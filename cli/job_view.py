"""The live view of a job that runs on its minions in batches."""

from __future__ import annotations

import time
from typing import Any, Iterator, Mapping

from catena.cli.output.board import JobBoard
from catena.cli.output.views import live
from catena.client.follow import JobFollower


def watched(
    items: Iterator[Mapping[str, Any]], follower: JobFollower, title: str
) -> Iterator[Mapping[str, Any]]:
    """Yield *items* after *follower* has processed them, with a live view on a terminal.

    Args:
        items: of a job's stream.
        follower: the caller may read it, but must not change it meanwhile.
        title: first line of the view.
    """
    board = JobBoard(follower, title)
    with live(board.board) as screen:
        for item in items:
            if screen is None:
                follower.feed(item)
            else:
                with screen.lock:
                    follower.feed(item)
                    board.feed(item, time.time())
            yield item

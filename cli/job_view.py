"""The live view of a job that goes through its minions in batches."""

from __future__ import annotations

import time
from typing import Any, Iterator, Mapping

from catena.cli.output.board import JobBoard
from catena.cli.output.views import live
from catena.client.follow import JobFollower


def watched(
    items: Iterator[Mapping[str, Any]], follower: JobFollower, title: str
) -> Iterator[Mapping[str, Any]]:
    """Yield *items* once *follower* knows them; on a terminal a live view stands below prints.

    Args:
        items: of a job's stream.
        follower: the caller may read it, and must not change it while this runs.
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

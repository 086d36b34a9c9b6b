"""What running jobs print: stored in parts, without a double, and each gap with its size."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from catena.core.errors import LimitError
from catena.core.ids import jid as checked_jid
from catena.master.events.feed import JobFeed
from catena.master.executions.engine import JobObserver
from catena.master.jobs import output_rows
from catena.master.jobs import rows as job_rows
from catena.master.jobs.delivery import MACHINE, Delivery
from catena.master.jobs.output_rows import PART_COST, OutputEnd, OutputPart
from catena.master.minions.sessions import MessageSender
from catena.master.store.database import Store, after_commit
from catena.transport.messages import JobOutput, OutputStored
from catena.transport.peers import Peer

STREAMS = frozenset({"stdout", "stderr"})
#: Most characters of one part; agents send a quarter of it.
PART_CHARACTERS = 64 * 1024
#: Number of jobs on minions for which the end of the output is remembered.
REMEMBERED = 1000
#: The largest numbers that make sense, far below those of the columns.
ATTEMPT_LIMIT, POSITION_LIMIT = 1000, 2**48


def next_part(end: OutputEnd, message: JobOutput, limit: int) -> OutputPart | None:
    """Return what is to be stored of *message*; None: it is there already, or the limit is.

    Args:
        end: where the stored output ends.
        message: of the minion.
        limit: most characters that are kept of the job's output; a part counts `PART_COST` more.
    """
    at, upto = message.at, message.at + message.size
    if end.is_full or (message.attempt, upto) <= (end.attempt, end.upto):
        return None
    begins = end.upto if message.attempt == end.attempt else 0
    if at < begins:
        # Agents resend a part as it was; another cut is no part of theirs.
        return None
    stream, text, missed = message.stream, message.text, at - begins
    if end.kept + len(text) + PART_COST > limit:
        stream, text, missed = "", "", 0
    return OutputPart(end.seq + 1, message.attempt, upto, missed, stream, text)


def after(end: OutputEnd, part: OutputPart) -> OutputEnd:
    """Return where the stored output ends once *part* is stored."""
    kept = end.kept + len(part.text) + PART_COST
    return OutputEnd(part.seq, part.attempt, part.upto, kept, not part.stream)


class Outputs:
    """Stores what minions send of their running jobs' output.

    Args:
        store: where it is kept.
        feed: live items.
        link: answers minions.
        limit: characters that are kept of one job on one minion; 0: none.
        observers: are notified of each stored part.
    """

    def __init__(
        self,
        store: Store,
        feed: JobFeed,
        link: MessageSender,
        limit: int,
        observers: Sequence[JobObserver] = (),
    ) -> None:
        self._store, self._feed, self._link, self.limit = store, feed, link, limit
        self._observers = observers
        #: (jid, minion) -> end after the last stored part. Used by the writer's thread alone.
        #: After a rollback an entry names a part that is not in the store, and is ignored.
        self._ends: dict[tuple[str, str], OutputEnd] = {}

    def received(
        self, peer: Peer, minion: str, message: JobOutput, msg_id: bytes
    ) -> asyncio.Future[Any]:
        """Store a part, and confirm it once it is durable.

        Raises:
            BadNameError: the jid is none.
            LimitError: the part is too large, or a number or name in it makes no sense.
        """
        checked_jid(message.jid)
        _check(message)
        stored = OutputStored(message.jid, message.attempt, message.at + message.size)

        def store(conn: sa.Connection) -> None:
            part = self._place(conn, minion, message)
            after_commit(conn, lambda: self._tell(peer, stored, msg_id))
            if part is not None:
                item = part.item(minion)
                for observer in self._observers:
                    observer.on_output(conn, message.jid, item)
                after_commit(conn, lambda: self._feed.publish(message.jid, item))

        return self._store.post(store, lazy=True)

    def _tell(self, peer: Peer, stored: OutputStored, msg_id: bytes) -> None:
        self._link.send(peer, stored, msg_id)

    def _place(self, conn: sa.Connection, minion: str, message: JobOutput) -> OutputPart | None:
        row = job_rows.delivery(conn, message.jid, minion)
        if row is None or MACHINE.is_final(Delivery(row.state)):
            # The return has it all, or the minion itself began the job.
            return None
        key = (message.jid, minion)
        end = output_rows.end(conn, *key, self._ends.pop(key, None))
        part = next_part(end, message, self.limit)
        if part is not None:
            output_rows.insert(conn, *key, part)
            end = after(end, part)
        self._ends[key] = end
        if len(self._ends) > REMEMBERED:
            del self._ends[next(iter(self._ends))]
        return part


def _check(message: JobOutput) -> None:
    if message.stream not in STREAMS:
        raise LimitError("output has the streams stdout and stderr")
    if len(message.text) > PART_CHARACTERS:
        raise LimitError(f"a part of output has at most {PART_CHARACTERS} characters")
    numbers = (message.attempt, message.at, message.size)
    limits = (ATTEMPT_LIMIT, POSITION_LIMIT, 4 * PART_CHARACTERS)
    if not all(0 <= number <= limit for number, limit in zip(numbers, limits, strict=True)):
        raise LimitError("a position in the output that makes no sense")

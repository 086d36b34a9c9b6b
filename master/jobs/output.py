"""Output of running jobs: stored in chunks, each once, and each gap with its size."""

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
from catena.master.jobs.output_rows import CHUNK_COST, OutputChunk, OutputEnd
from catena.master.minions.sessions import MessageSender
from catena.master.store.database import Store, after_commit
from catena.transport.messages import JobOutput, OutputStored
from catena.transport.peers import Peer

STREAMS = frozenset({"stdout", "stderr"})
#: Maximum characters of a chunk; agents send at most a quarter of this.
CHUNK_CHARACTERS = 64 * 1024
#: Bytes that a minion may send at once beside two seconds at its rate. An agent has at most half
#: of it unconfirmed, and may resend that on a new connection.
BURST_BYTES = 512 * 1024
#: Number of jobs on minions for which the end of the output is remembered.
REMEMBERED = 1000
#: Maximum attempt number and byte position, far below the limits of the columns.
ATTEMPT_LIMIT, POSITION_LIMIT = 1000, 2**48


def next_chunk(end: OutputEnd, message: JobOutput, limit: int) -> OutputChunk | None:
    """Return the chunk to store for a message; None if there is nothing to store.

    If the message exceeds the limit, an empty chunk without a stream marks the end of the output.

    Args:
        end: the end of the stored output.
        message: from the minion.
        limit: maximum number of stored characters of the job's output on the minion; each chunk
            counts `CHUNK_COST` more.
    """
    at, upto = message.at, message.at + message.size
    if end.is_full or (message.attempt, upto) <= (end.attempt, end.upto):
        return None
    begins = end.upto if message.attempt == end.attempt else 0
    if at < begins:
        # Agents resend chunks unchanged, so no agent sent a chunk that overlaps another one.
        return None
    stream, text, missed = message.stream, message.text, at - begins
    if end.kept + len(text) + CHUNK_COST > limit:
        stream, text, missed = "", "", 0
    return OutputChunk(end.seq + 1, message.attempt, upto, missed, stream, text)


def after(end: OutputEnd, chunk: OutputChunk) -> OutputEnd:
    """Return the end of the stored output after *chunk* is stored, too."""
    kept = end.kept + len(chunk.text) + CHUNK_COST
    return OutputEnd(chunk.seq, chunk.attempt, chunk.upto, kept, not chunk.stream)


def cost(message: JobOutput) -> int:
    """Return what a chunk counts against the rate of its minion, in bytes, as agents count it."""
    return len(message.text) + CHUNK_COST


class Outputs:
    """Stores the output of running jobs.

    Args:
        store: of the master.
        feed: receives live items.
        link: sends confirmations to minions.
        limit: maximum number of stored characters of one job on one minion; 0: store none.
        observers: are notified of each stored chunk.
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
        #: (jid, minion) -> end after the last stored chunk. Only the writer's thread uses it.
        #: `output_rows.end` ignores an entry whose chunk was rolled back.
        self._ends: dict[tuple[str, str], OutputEnd] = {}

    def received(
        self, peer: Peer, minion: str, message: JobOutput, msg_id: bytes
    ) -> asyncio.Future[Any]:
        """Store a chunk, and confirm it once it is durable.

        Raises:
            BadNameError: the jid is invalid.
            LimitError: the chunk is too large, or a number or name in it is out of range.
        """
        checked_jid(message.jid)
        _check(message)
        stored = OutputStored(message.jid, message.attempt, message.at + message.size)

        def store(conn: sa.Connection) -> None:
            chunk = self._store_chunk(conn, minion, message)
            after_commit(conn, lambda: self._confirm(peer, stored, msg_id))
            if chunk is not None:
                item = chunk.item(minion)
                for observer in self._observers:
                    observer.on_output(conn, message.jid, item)
                after_commit(conn, lambda: self._feed.publish(message.jid, item))

        return self._store.post(store, lazy=True)

    def skip(self, peer: Peer, message: JobOutput, msg_id: bytes) -> None:
        """Confirm a chunk without storing it, so that its minion does not resend it for ever.

        The next chunk shows the gap.
        """
        upto = message.at + message.size
        self._confirm(peer, OutputStored(message.jid, message.attempt, upto), msg_id)

    def _confirm(self, peer: Peer, stored: OutputStored, msg_id: bytes) -> None:
        self._link.send(peer, stored, msg_id)

    def _store_chunk(
        self, conn: sa.Connection, minion: str, message: JobOutput
    ) -> OutputChunk | None:
        row = job_rows.delivery(conn, message.jid, minion)
        if row is None or MACHINE.is_final(Delivery(row.state)):
            # The return repeats the output; a job that the minion began has no delivery here yet.
            return None
        key = (message.jid, minion)
        end = output_rows.end(conn, *key, self._ends.pop(key, None))
        chunk = next_chunk(end, message, self.limit)
        if chunk is not None:
            output_rows.insert(conn, *key, chunk)
            end = after(end, chunk)
        self._ends[key] = end
        if len(self._ends) > REMEMBERED:
            del self._ends[next(iter(self._ends))]
        return chunk


def _check(message: JobOutput) -> None:
    if message.stream not in STREAMS:
        raise LimitError(
            f"output of the stream {message.stream[:20]!r}: expected stdout or stderr"
        )
    if len(message.text) > CHUNK_CHARACTERS:
        raise LimitError(f"a chunk of output with more than {CHUNK_CHARACTERS} characters")
    numbers = (message.attempt, message.at, message.size)
    limits = (ATTEMPT_LIMIT, POSITION_LIMIT, 4 * CHUNK_CHARACTERS)
    if not all(0 <= number <= limit for number, limit in zip(numbers, limits, strict=True)):
        raise LimitError("a chunk of output whose attempt, position or size is out of range")

"""Queries on the stored output of jobs; each runs in the transaction of its caller."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from catena.client.replies.jobs import JobOutputItem
from catena.master.store.tables import OUTPUT

#: Overhead of a chunk in characters, counted against the limit of a job's output. It bounds the
#: number of chunks. Agents count the same overhead against their rate limit.
CHUNK_COST = 128


class OutputEnd(NamedTuple):
    """The end of the stored output of a job on one minion; all 0 if nothing is stored."""

    #: Number of the last stored chunk.
    seq: int = 0
    #: `JobOutput.attempt` of the last chunk.
    attempt: int = 0
    #: Position after the last chunk, in bytes of the output of this attempt.
    upto: int = 0
    #: Number of stored characters, plus `CHUNK_COST` for each chunk.
    kept: int = 0
    #: Whether the last chunk marks that the limit was reached.
    is_full: bool = False


class OutputChunk(NamedTuple):
    """A stored chunk of the output of a job on one minion."""

    #: Number of the chunk, from 1.
    seq: int
    #: As in `JobOutput`.
    attempt: int
    #: Position after the chunk, in bytes of the output of this attempt.
    upto: int
    #: Number of bytes that are missing before the chunk.
    missed: int
    #: "stdout" or "stderr"; "": the chunk marks that the limit was reached.
    stream: str
    text: str

    def item(self, minion: str) -> JobOutputItem:
        """Return the chunk as an item of a job's feed."""
        return JobOutputItem(minion, self.seq, self.stream, self.text, self.missed)


_CHUNK = tuple(OUTPUT.c[name] for name in OutputChunk._fields)


def end(conn: sa.Connection, jid: str, minion: str, known: OutputEnd | None = None) -> OutputEnd:
    """Return the end of the stored output of a job on one minion.

    Args:
        conn: the running transaction.
        jid: the job.
        minion: the minion.
        known: the end after the last chunk that the caller stored. If that chunk is still the last
            one, the sizes of all chunks are not summed up again.
    """
    mine = (OUTPUT.c.jid == jid) & (OUTPUT.c.minion == minion)
    query = sa.select(OUTPUT.c.seq, OUTPUT.c.attempt, OUTPUT.c.upto, OUTPUT.c.stream).where(mine)
    last = conn.execute(query.order_by(OUTPUT.c.seq.desc()).limit(1)).first()
    if last is None:
        return OutputEnd()
    found = OutputEnd(last.seq, last.attempt, last.upto, 0, not last.stream)
    if known is not None and known._replace(kept=0) == found:
        return known
    sizes = sa.func.sum(sa.func.length(OUTPUT.c.text) + CHUNK_COST)
    return found._replace(kept=int(conn.execute(sa.select(sizes).where(mine)).scalar_one()))


def insert(conn: sa.Connection, jid: str, minion: str, chunk: OutputChunk) -> None:
    """Store a chunk of a job's output on one minion."""
    values = {"jid": jid, "minion": minion, **chunk._asdict()}
    conn.execute(sa.insert(OUTPUT).values(values))


def chunks(conn: sa.Connection, jid: str) -> list[tuple[str, OutputChunk]]:
    """Return (minion, chunk) for the stored chunks of a job, ordered by minion and number."""
    query = sa.select(OUTPUT.c.minion, *_CHUNK).where(OUTPUT.c.jid == jid)
    found = conn.execute(query.order_by(OUTPUT.c.minion, OUTPUT.c.seq))
    return [(row[0], OutputChunk._make(row[1:])) for row in found]

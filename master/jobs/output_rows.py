"""Queries on the stored output of jobs; each runs in the transaction of its caller."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from catena.client.replies.jobs import JobOutputItem
from catena.master.store.tables import OUTPUT

#: What a part counts in addition to its characters, against the limit of a job's output. Agents
#: count as much against their rate. It bounds the number of parts.
PART_COST = 128


class OutputEnd(NamedTuple):
    """Where the stored output of a job on one minion ends."""

    seq: int = 0
    attempt: int = 0
    upto: int = 0
    #: Characters that are stored, and `PART_COST` for each part.
    kept: int = 0
    #: Whether the last part is the mark at the limit.
    is_full: bool = False


class OutputPart(NamedTuple):
    """A part as it is to be stored."""

    seq: int
    attempt: int
    upto: int
    missed: int
    stream: str
    text: str

    def item(self, minion: str) -> JobOutputItem:
        """Return the part as an item of a job's stream."""
        return JobOutputItem(minion, self.seq, self.stream, self.text, self.missed)


_PART = tuple(OUTPUT.c[name] for name in OutputPart._fields)


def end(conn: sa.Connection, jid: str, minion: str, known: OutputEnd | None = None) -> OutputEnd:
    """Return where the stored output of a job on one minion ends.

    Args:
        conn: the running transaction.
        jid: the job.
        minion: the minion.
        known: the end after the last part that the caller stored. If that is still the last one,
            the sizes of all parts need not be summed up again.
    """
    mine = (OUTPUT.c.jid == jid) & (OUTPUT.c.minion == minion)
    query = sa.select(OUTPUT.c.seq, OUTPUT.c.attempt, OUTPUT.c.upto, OUTPUT.c.stream).where(mine)
    last = conn.execute(query.order_by(OUTPUT.c.seq.desc()).limit(1)).first()
    if last is None:
        return OutputEnd()
    found = OutputEnd(last.seq, last.attempt, last.upto, 0, not last.stream)
    if known is not None and known._replace(kept=0) == found:
        return known
    sizes = sa.func.sum(sa.func.length(OUTPUT.c.text) + PART_COST)
    return found._replace(kept=int(conn.execute(sa.select(sizes).where(mine)).scalar_one()))


def insert(conn: sa.Connection, jid: str, minion: str, part: OutputPart) -> None:
    """Store a part of a job's output on one minion."""
    values = {"jid": jid, "minion": minion, **part._asdict()}
    conn.execute(sa.insert(OUTPUT).values(values))


def parts(conn: sa.Connection, jid: str) -> list[tuple[str, OutputPart]]:
    """Return the stored parts of a job, each with its minion, in their order."""
    query = sa.select(OUTPUT.c.minion, *_PART).where(OUTPUT.c.jid == jid)
    found = conn.execute(query.order_by(OUTPUT.c.minion, OUTPUT.c.seq))
    return [(row[0], OutputPart._make(row[1:])) for row in found]

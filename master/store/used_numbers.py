"""Numbers that a database has assigned, and that a restored one must not assign again.

Minions keep journals under chain ids, epochs and jids. The lost master assigned such numbers after
the backup, and so did every master that was restored from the same backup before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from catena.core.ids import is_jid, jid_at
from catena.master.store import tables
from catena.master.store.restored import RESTORED

#: How far ids and epochs skip: more than a master assigns between a backup and its loss.
ID_GAP = 1_000_000
EPOCH_GAP = 1_000
#: Name of the fact with the highest epoch that must not be assigned again.
EPOCH_FLOOR = "epoch_floor"
#: Tables whose ids SQLite counts in `sqlite_sequence`.
_NUMBERED = ("chain", "action", "run", "event")
_EPOCHS = """
    SELECT max(epoch) FROM run UNION ALL SELECT CAST(value AS INTEGER) FROM fact WHERE name = ?
"""


@dataclass(frozen=True)
class UsedNumbers:
    """The highest numbers that a database has assigned."""

    #: By name of the table.
    ids: Mapping[str, int] = field(default_factory=dict)
    epoch: int = 0
    #: "": none.
    jid: str = ""

    def merged(self, other: UsedNumbers) -> UsedNumbers:
        """Return the highest numbers that either database has assigned."""
        ids = {name: max(self.ids.get(name, 0), other.ids.get(name, 0)) for name in _NUMBERED}
        return UsedNumbers(ids, max(self.epoch, other.epoch), max(self.jid, other.jid))


def read(path: Path, now: float) -> UsedNumbers:
    """Return the numbers that a database has assigned, as far as it can be read.

    Args:
        path: the database file, which is not changed. It may be missing, of another schema, or
            damaged, which is why people restore one: what cannot be read counts as unused.
        now: wall clock, seconds since the epoch. Jids of more than a day later are not counted.
    """
    if not path.is_file():
        return UsedNumbers()
    limit = jid_at(datetime.fromtimestamp(now, UTC) + timedelta(days=1))
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as conn:
        ids = dict(_rows(conn, "SELECT name, seq FROM sqlite_sequence"))
        epochs = [row[0] for row in _rows(conn, _EPOCHS, EPOCH_FLOOR)]
        jobs = _rows(conn, "SELECT jid FROM job WHERE jid < ? ORDER BY jid DESC", limit)
        newest = next((row[0] for row in jobs if is_jid(str(row[0]))), "")
        query = "SELECT json_extract(value, '$.jid') FROM fact WHERE name = ?"
        skipped = [row[0] for row in _rows(conn, query, RESTORED)]
    return UsedNumbers(
        {name: ids[name] for name in _NUMBERED if isinstance(ids.get(name), int)},
        max((epoch for epoch in epochs if isinstance(epoch, int)), default=0),
        max(newest, *(jid for jid in skipped if is_jid(str(jid)) and jid < limit), ""),
    )


def _rows(conn: sqlite3.Connection, query: str, *values: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of *query* up to the first one that cannot be read."""
    try:
        yield from conn.execute(query, values)
    except sqlite3.DatabaseError:
        return


def skip(path: Path, used: UsedNumbers, now: float) -> None:
    """Let a database file continue above *used* numbers.

    The clock is the only thing that tells two restorations of one backup apart if the first
    restored database is lost, too. Therefore epochs continue at least from it: a chain that gets
    an id of that lost database is a newer run to the minions.

    Args:
        path: the restored database.
        used: what was assigned, as far as it is known.
        now: wall clock, seconds since the epoch.
    """
    floor = max(used.epoch + EPOCH_GAP, int(now))
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (EPOCH_FLOOR, str(floor)))
        for name in _NUMBERED:
            conn.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
            row = (name, used.ids.get(name, 0) + ID_GAP)
            conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", row)


def next_epoch(conn: sa.Connection, epoch: int) -> int:
    """Return the epoch after *epoch*, beyond those that a lost master may have used."""
    query = sa.select(tables.FACTS.c.value).where(tables.FACTS.c.name == EPOCH_FLOOR)
    return max(epoch, int(conn.execute(query).scalar() or 0)) + 1

"""Marks a database that was restored from a backup, and tells what the restoration means.

Between backup and restoration the lost database was in use, so jobs and chains that are open in
the backup may have run since. A job of that time is therefore never sent again, and a chain that
was due is not started.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from catena.core.ids import jid_at, jid_time
from catena.master.store.tables import FACTS

#: Name of the fact with the time of the restoration, seconds since the epoch.
RESTORED = "restored"
#: Time by which jids skip after the newest one of a backup: enough for ten million jobs.
JID_GAP = timedelta(seconds=10)
REASON = (
    "the store was restored from a backup: nobody knows whether this ran since; look at the host"
)
_OPEN_DELIVERIES = """
    SELECT jid, fun, count(*), min(minion), min(delivery.state) FROM delivery JOIN job USING (jid)
    WHERE delivery.state IN ('held', 'queued', 'paused', 'sent', 'received', 'running')
    GROUP BY jid, fun ORDER BY jid
"""


def mark(path: Path, now: float, newest: str) -> None:
    """Record in a database file when it was restored, and up to which jid jobs may have run.

    The clock of this host may be behind that of the lost one, which then continued from its newest
    jid, one microsecond per job; JID_GAP skips the jids that it may have used.

    Args:
        path: the restored database.
        now: wall clock, seconds since the epoch.
        newest: the highest jid that is known to be used; "": none.
    """
    at = jid_at(datetime.fromtimestamp(now, UTC))
    counted = jid_at(jid_time(newest) + JID_GAP) if newest >= at else ""
    value = json.dumps({"at": now, "jid": max(counted, at)})
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)", (RESTORED, value))


def moment(conn: sa.Connection) -> float:
    """Return when the database was last restored, seconds since the epoch; 0.0: never."""
    return float(_fact(conn).get("at", 0.0))


def horizon(conn: sa.Connection) -> str:
    """Return the highest jid that the lost database may have used; "" without a restoration."""
    return str(_fact(conn).get("jid", ""))


def _fact(conn: sa.Connection) -> dict[str, Any]:
    value = conn.execute(sa.select(FACTS.c.value).where(FACTS.c.name == RESTORED)).scalar()
    found: dict[str, Any] = json.loads(value) if value is not None else {}
    return found


def touched(path: Path, now: float) -> list[str]:
    """Return a sentence for each chain and job that was open when the backup was made.

    Args:
        path: a restored database.
        now: time of the restoration, seconds since the epoch.
    """
    with closing(sqlite3.connect(path)) as conn:
        return [*_chains(conn, now), *_orders(conn)]


def _chains(conn: sqlite3.Connection, now: float) -> list[str]:
    query = (
        "SELECT c.id, c.label, r.state, r.due FROM chain c JOIN run r ON r.id = c.run"
        " WHERE r.state IN ({}) ORDER BY c.id"
    )
    found = []
    for number, label, state, due in conn.execute(
        query.format("'dispatched', 'running', 'scheduled', 'waiting', 'pending_approval'")
    ):
        name = f"chain {number} ({label})"
        if state in ("dispatched", "running"):
            found.append(
                f"{name} was running: it continues on minions that still know it, else it fails"
            )
        elif state == "scheduled" and due is not None and due <= now:
            found.append(f"{name} became due after the backup: it fails, as it may have run")
        elif state == "scheduled":
            found.append(f"{name} is scheduled and starts at its due time")
        else:
            found.append(f"{name} waits for a person, as in the backup")
    return found


def _orders(conn: sqlite3.Connection) -> list[str]:
    return [
        f"job {jid} ({fun}) was open on {minion}{f' and {count - 1} more' if count > 1 else ''}: "
        "it ends as lost on minions that do not know it"
        for jid, fun, count, minion, _ in conn.execute(_OPEN_DELIVERIES)
    ]

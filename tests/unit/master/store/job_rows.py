"""Rows of jobs in a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from catena.master.store.tables import DELIVERIES, JOBS


def job(jid: str, ended: float | None) -> Callable[[sa.Connection], None]:
    """Return what inserts a job and its delivery; *ended* is None while the job runs."""
    row: dict[str, Any] = {
        "jid": jid,
        "fun": "test.ping",
        "args": [],
        "kwargs": {},
        "user": "root",
        "tgt": "*",
    }
    row |= {"tgt_type": "glob", "metadata": {}, "issued": 0.0, "not_after": 0.0}

    def insert(conn: sa.Connection) -> None:
        conn.execute(sa.insert(JOBS).values(row | {"deadline_seconds": 1, "ended": ended}))
        delivery = {"jid": jid, "minion": "web1", "state": "done", "changed": 0.0}
        conn.execute(sa.insert(DELIVERIES).values(delivery))

    return insert

"""Retention of events: they are deleted when they are old and all durable consumers read them."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from catena.master.events import rows
from catena.master.process.retention import Before, Retention

#: Maximum number of events deleted in one transaction.
BATCH = 5000


def _drop(conn: sa.Connection, before: Before) -> Mapping[str, int]:
    return {"events": rows.drop_seen(conn, before["events"], BATCH)}


RETENTION = Retention(
    "events",
    lambda settings, now: now - settings.keep_events_hours * 3600,
    _drop,
    shrinks=True,
)

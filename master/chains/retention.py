"""Retention of archived chains, and of the jobs that open runs need."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from catena.core.config.master import MasterSettings
from catena.master.chains import cleanup_rows
from catena.master.process.retention import Before, Retention

#: Maximum number of rows deleted in one transaction.
BATCH = 20


def _before(settings: MasterSettings, now: float) -> float:
    hours = settings.keep_chains_hours
    return now - hours * 3600 if hours else 0.0


def _drop(conn: sa.Connection, before: Before) -> Mapping[str, int]:
    found = cleanup_rows.archived(conn, before["chains"], BATCH)
    cleanup_rows.forget(conn, found)
    return {"chains": len(found)}


RETENTION = Retention("chains", _before, _drop, shrinks=True)

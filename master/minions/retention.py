"""Retention of agent sessions, so that each start event is fired once."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from catena.master.minions import rows
from catena.master.process.retention import Before, Retention

#: Seconds for which the session of an ended agent is remembered.
SESSION_SECONDS = 30 * 24 * 3600.0


def _drop(conn: sa.Connection, before: Before) -> Mapping[str, int]:
    gone = rows.drop_sessions(conn, before["sessions"])
    return {"sessions": gone} if gone else {}


RETENTION = Retention("sessions", lambda settings, now: now - SESSION_SECONDS, _drop)

"""How long sessions of agents are remembered: the start event of each is made once."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from catena.master.process.retention import Before, Retention
from catena.master.store.tables import MINIONS, SESSIONS

#: Rows that one transaction drops.
BATCH = 5000
#: How long the session of an agent that has ended is remembered.
SESSION_SECONDS = 30 * 24 * 3600.0


def _drop(conn: sa.Connection, before: Before) -> Mapping[str, int]:
    live = sa.select(MINIONS.c.session).where(MINIONS.c.id == SESSIONS.c.minion)
    old = sa.select(SESSIONS.c.minion, SESSIONS.c.session).where(
        SESSIONS.c.at < before["sessions"], SESSIONS.c.session.not_in(live.scalar_subquery())
    )
    rows = conn.execute(old.limit(BATCH)).all()
    if not rows:
        return {}
    key = sa.tuple_(SESSIONS.c.minion, SESSIONS.c.session)
    gone = conn.execute(sa.delete(SESSIONS).where(key.in_([tuple(row) for row in rows]))).rowcount
    return {"sessions": gone}


RETENTION = Retention("sessions", lambda settings, now: now - SESSION_SECONDS, _drop)

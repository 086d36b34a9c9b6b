"""How long the keys of requests are known."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from catena.master.process.retention import Before, Retention
from catena.master.store.tables import REQUESTS

#: Rows that one transaction drops.
BATCH = 5000
#: How long the key of a request is known: a client repeats within half a minute, a person or a
#: script that was given the key within a day.
REQUEST_SECONDS = 24 * 3600.0


def _drop(conn: sa.Connection, before: Before) -> Mapping[str, int]:
    old = sa.select(REQUESTS.c.user, REQUESTS.c.key).where(REQUESTS.c.at < before["requests"])
    rows = conn.execute(old.order_by(REQUESTS.c.at).limit(BATCH)).all()
    if not rows:
        return {}
    key = sa.tuple_(REQUESTS.c.user, REQUESTS.c.key)
    gone = conn.execute(sa.delete(REQUESTS).where(key.in_([tuple(row) for row in rows]))).rowcount
    return {"requests": gone}


RETENTION = Retention("requests", lambda settings, now: now - REQUEST_SECONDS, _drop)

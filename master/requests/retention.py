"""Retention of the keys of requests."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from catena.master.process.retention import Before, Retention
from catena.master.requests import rows

#: Seconds for which the key of a request is stored: a client repeats within half a minute, a
#: person or a script with --request-key within a day.
REQUEST_SECONDS = 24 * 3600.0


def _drop(conn: sa.Connection, before: Before) -> Mapping[str, int]:
    gone = rows.drop(conn, before["requests"])
    return {"requests": gone} if gone else {}


RETENTION = Retention("requests", lambda settings, now: now - REQUEST_SECONDS, _drop)

"""Queries on requests that have a key; each runs in the transaction of its caller."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.master.store.fast.lookup import Lookup
from catena.master.store.fast.many_rows import ManyRows
from catena.master.store.tables import JOBS, REQUESTS

#: Maximum number of requests deleted in one transaction.
_BATCH = 5000
# Statements of the hot path are built once: building one costs more than running it.
_INSERT = ManyRows(sa.insert(REQUESTS), ("user", "key", "verb", "digest", "answer", "at"))


class NewRequest(NamedTuple):
    """A request about to be stored, in the order of the insert's columns."""

    user: str
    key: str
    verb: str
    #: SHA-256 of the request's fields, hex.
    digest: str
    #: The reply, as the record of the verb's contract.
    answer: Any
    #: Arrival, seconds since the epoch.
    at: float


class StoredRequest(NamedTuple):
    """What a repetition is compared with, and its answer."""

    verb: str
    digest: str
    answer: Any


_REQUEST = Lookup(
    sa.select(REQUESTS.c.verb, REQUESTS.c.digest, REQUESTS.c.answer).where(
        REQUESTS.c.user == sa.bindparam("b_user"), REQUESTS.c.key == sa.bindparam("b_key")
    ),
    StoredRequest,
)


def insert(conn: sa.Connection, new: NewRequest) -> None:
    """Store a request and its answer."""
    _INSERT.run(conn, [new])


def request(conn: sa.Connection, user: str, key: str) -> StoredRequest | None:
    """Return the request that *user* made with a key, or None."""
    return _REQUEST.one(conn, {"b_user": user, "b_key": key})


def is_taken(conn: sa.Connection, user: str, key: str, job_key: str | None) -> bool:
    """Return whether a request or a job has the key.

    Args:
        conn: a snapshot.
        user: who made the request.
        key: its key.
        job_key: the form of both in which JOBS stores them.
    """
    rule = (REQUESTS.c.user == user) & (REQUESTS.c.key == key)
    job = sa.select(JOBS.c.jid).where(JOBS.c.idempotency == job_key)
    queries = (sa.select(REQUESTS.c.verb).where(rule), job)
    return any(conn.execute(query).first() is not None for query in queries)


def drop(conn: sa.Connection, before: float) -> int:
    """Delete requests that arrived before a time, oldest first, a batch at a time.

    Returns:
        Their number.
    """
    old = sa.select(REQUESTS.c.user, REQUESTS.c.key).where(REQUESTS.c.at < before)
    found = conn.execute(old.order_by(REQUESTS.c.at).limit(_BATCH)).all()
    if not found:
        return 0
    key = sa.tuple_(REQUESTS.c.user, REQUESTS.c.key)
    change = sa.delete(REQUESTS).where(key.in_([tuple(row) for row in found]))
    return conn.execute(change).rowcount

"""Queries on jobs that a minion began itself; each runs in the transaction of its caller.

The master learns of such a job (startup_states, `catena call`) by its return.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import sqlalchemy as sa

from catena.core.ids import is_jid
from catena.core.job import JobReturn
from catena.master.jobs import rows
from catena.master.jobs.delivery import Delivery
from catena.master.store.tables import DELIVERIES, JOBS

#: Value of `deadline_seconds` that marks a job as begun by a minion; requests have at least 1.
OWN_DEADLINE = 0


class OwnJob(NamedTuple):
    """A job that a minion began itself, with its return."""

    minion: str
    ret: JobReturn

    @property
    def key(self) -> str:
        """Return the key that identifies a resent return; no request has such a key."""
        return f"\n{self.minion}\n{self.ret.jid}"


def insert(conn: sa.Connection, job: OwnJob, jid: str, now: float) -> None:
    """Store a job that a minion began itself, with its delivery.

    Args:
        conn: the running transaction.
        job: the job under the minion's own jid.
        jid: the jid under which the job is stored.
        now: seconds since the epoch.
    """
    ret = job.ret
    row = {
        "jid": jid,
        "fun": ret.fun[:255],
        "args": list(ret.fun_args),
        "kwargs": {},
        "user": job.minion[:64],
        "tgt": job.minion,
        "tgt_type": "list",
        "metadata": {} if jid == ret.jid else {"own_jid": ret.jid},
        "issued": ret.started,
        "not_after": now,
        "deadline_seconds": OWN_DEADLINE,
        "idempotency": job.key,
        "open": 1,
    }
    conn.execute(sa.insert(JOBS).values(row))
    state = Delivery.received.value
    delivered = {"jid": jid, "minion": job.minion, "state": state, "changed": now}
    conn.execute(sa.insert(DELIVERIES).values(delivered))


class JidOrigin(Enum):
    """Who began the job with a jid."""

    #: No job has the jid.
    nobody = "nobody"
    #: A request to this master.
    master = "master"
    #: A minion (`OwnJob`).
    minion = "minion"


def origin(conn: sa.Connection, jid: str) -> JidOrigin:
    """Return who began the job with *jid*."""
    row = conn.execute(sa.select(JOBS.c.idempotency).where(JOBS.c.jid == jid)).first()
    if row is None:
        return JidOrigin.nobody
    return JidOrigin.minion if (row.idempotency or "").startswith("\n") else JidOrigin.master


def is_stored(conn: sa.Connection, job: OwnJob) -> bool:
    """Return whether *job* is stored already."""
    return rows.jid_of_key(conn, job.key) is not None


def last_jid(conn: sa.Connection, before: str) -> str:
    """Return the highest jid below *before* that this master made; "" if there is none.

    Jobs that a minion began are ignored, because the minion chose their jid. Values that are no
    valid jid, as an older version may have stored them, are ignored, too.
    """
    query = sa.select(JOBS.c.jid).where(JOBS.c.jid < before)
    query = query.where(JOBS.c.deadline_seconds != OWN_DEADLINE).order_by(JOBS.c.jid.desc())
    with conn.execute(query.execution_options(yield_per=100)) as found:
        return next((jid for jid in found.scalars() if is_jid(jid)), "")

"""Queries on jobs that began on a minion itself; each runs in the transaction of its caller."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import sqlalchemy as sa

from catena.core.ids import is_jid
from catena.core.job import JobReturn
from catena.master.jobs import rows
from catena.master.jobs.delivery import Delivery
from catena.master.store.tables import DELIVERIES, JOBS

#: `deadline_seconds` of a job that a minion began itself; that of a request is 1 or more.
OWN_DEADLINE = 0


class OwnJob(NamedTuple):
    """A job that began on the minion itself (startup_states), with its return."""

    minion: str
    ret: JobReturn

    @property
    def key(self) -> str:
        """Return what it is recognised by when it is sent again; no request has such a key."""
        return f"\n{self.minion}\n{self.ret.jid}"


def adopt(conn: sa.Connection, job: OwnJob, jid: str, now: float) -> None:
    """Store a job that a minion began itself, with its delivery, as *jid*."""
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


class Holder(Enum):
    """Whose job a jid is."""

    nobody = "nobody"
    #: A job that this master gave.
    master = "master"
    #: A job that began on a minion (`OwnJob`).
    minion = "minion"


def holder(conn: sa.Connection, jid: str) -> Holder:
    """Return whose job *jid* is."""
    row = conn.execute(sa.select(JOBS.c.idempotency).where(JOBS.c.jid == jid)).first()
    if row is None:
        return Holder.nobody
    return Holder.minion if (row.idempotency or "").startswith("\n") else Holder.master


def adopted(conn: sa.Connection, job: OwnJob) -> bool:
    """Return whether *job* is stored already."""
    return rows.with_key(conn, job.key) is not None


def last_jid(conn: sa.Connection, before: str) -> str:
    """Return the highest jid below *before* that this master made; "" if there is none.

    Jobs that began on a minion itself are passed over: their jid is the minion's word. A jid of an
    older version's that is no time is passed over, too.
    """
    query = sa.select(JOBS.c.jid).where(JOBS.c.jid < before)
    query = query.where(JOBS.c.deadline_seconds != OWN_DEADLINE).order_by(JOBS.c.jid.desc())
    with conn.execute(query.execution_options(yield_per=100)) as found:
        return next((jid for jid in found.scalars() if is_jid(jid)), "")

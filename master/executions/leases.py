"""Leases: exclusive, time-limited claims of a process to an object, such as a row of a table.

A lease is stored in its own row. It is claimed by compare-and-set, so it never has two holders. A
holder that stops or loses its connection loses the lease when the lease expires.

A process can be suspended and wake up after its lease was given to another process. Therefore each
claim increases the epoch of the lease, which is a fencing token: a holder stores its results in a
transaction that calls `require` first.

The functions run in the transaction of their caller. *now* is the wall clock of the time source
that all processes on the store share (`core.clock.TimeSource`), seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from catena.core.errors import TryLaterError
from catena.master.store.execution_tables import LEASES

_ID = sa.and_(LEASES.c.subject == sa.bindparam("b_subject"), LEASES.c.id == sa.bindparam("b_id"))
_MINE = sa.and_(
    _ID,
    LEASES.c.holder == sa.bindparam("b_holder"),
    LEASES.c.epoch == sa.bindparam("b_epoch"),
)
_FREE = sa.or_(LEASES.c.holder == "", LEASES.c.until <= sa.bindparam("b_now"))
_CLAIM = (
    sa.update(LEASES)
    .where(_ID, _FREE)
    .values(
        holder=sa.bindparam("b_holder"),
        epoch=LEASES.c.epoch + 1,
        until=sa.bindparam("b_until"),
    )
    .returning(LEASES.c.epoch)
)
_RENEW = sa.update(LEASES).where(_MINE).values(until=sa.bindparam("b_until"))
_RELEASE = sa.update(LEASES).where(_MINE).values(holder="", until=0.0)
#: Locks the row until the end of the transaction on PostgreSQL; SQLite has one writer.
_REQUIRE = sa.select(LEASES.c.epoch).where(_MINE).with_for_update(read=True)
_END = sa.update(LEASES).where(_ID, _FREE).values(holder="", until=0.0)
_LIVE = sa.select(LEASES.c.epoch).where(_ID, sa.not_(_FREE))


class LeaseLostError(TryLaterError):
    """The lease has ended, or another process holds it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim to an object."""

    #: Type of the object: usually a table's name.
    subject: str
    id: str
    #: Name of the holding process, never reused: a restarted process takes a new name.
    holder: str
    #: Fencing token: larger than that of every earlier claim to the same object.
    epoch: int
    until: float

    def _key(self) -> dict[str, object]:
        return {
            "b_subject": self.subject,
            "b_id": self.id,
            "b_holder": self.holder,
            "b_epoch": self.epoch,
        }


def claim(
    conn: sa.Connection, wanted: tuple[str, str], holder: str, now: float, seconds: float
) -> Lease | None:
    """Claim an object that no process holds.

    Args:
        conn: in a transaction that writes.
        wanted: subject and id of the object.
        holder: name of the claiming process.
        now: wall clock, seconds since the epoch.
        seconds: duration of the lease unless it is renewed.

    Returns:
        The lease; None if a process, *holder* included, holds the object.
    """
    if not holder:
        raise ValueError("a lease needs a holder")
    subject, id_ = wanted
    until = now + seconds
    key = {"b_subject": subject, "b_id": id_, "b_now": now}
    values = {**key, "b_holder": holder, "b_until": until}
    epoch = conn.execute(_CLAIM, values).scalar()
    if epoch is None:
        row = {"subject": subject, "id": id_, "holder": holder, "epoch": 1, "until": until}
        if not _insert(conn, row):
            return None
        epoch = 1
    return Lease(subject, id_, holder, int(epoch), until)


def renew(conn: sa.Connection, lease: Lease, now: float, seconds: float) -> Lease:
    """Extend a lease and return it; an expired lease that nobody has claimed can be renewed.

    Raises:
        LeaseLostError: another process has claimed or ended the lease.
    """
    until = now + seconds
    if conn.execute(_RENEW, {**lease._key(), "b_until": until}).rowcount != 1:
        raise LeaseLostError
    return replace(lease, until=until)


def release(conn: sa.Connection, lease: Lease) -> bool:
    """Release a lease; return False if it was lost before.

    The row stays, so that the next epoch is larger.
    """
    return conn.execute(_RELEASE, lease._key()).rowcount == 1


def require(conn: sa.Connection, lease: Lease) -> None:
    """Check that *lease* is held until the end of the transaction.

    Raises:
        LeaseLostError: another process has claimed or ended the lease.
    """
    if conn.execute(_REQUIRE, lease._key()).scalar() is None:
        raise LeaseLostError


def end_lapsed(conn: sa.Connection, wanted: tuple[str, str], now: float) -> bool:
    """End an expired lease; return whether no process holds the object now."""
    key = {"b_subject": wanted[0], "b_id": wanted[1], "b_now": now}
    conn.execute(_END, key)
    return conn.execute(_LIVE, key).scalar() is None


def lapse_all(conn: sa.Connection, subject: str) -> None:
    """Expire every lease of a subject; the caller knows that no holder is alive."""
    conn.execute(sa.update(LEASES).where(LEASES.c.subject == subject).values(until=0.0))


def is_live(subject: str, id_column: sa.ColumnElement[str], now: float) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a process holds the row whose id is in *id_column*."""
    return sa.exists().where(
        LEASES.c.subject == subject,
        LEASES.c.id == id_column,
        LEASES.c.holder != "",
        LEASES.c.until > now,
    )


def _insert(conn: sa.Connection, row: dict[str, object]) -> bool:
    """Insert the first lease of an object; return False if another transaction was faster."""
    insert = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    statement = insert(LEASES).values(row).on_conflict_do_nothing().returning(LEASES.c.epoch)
    return conn.execute(statement).first() is not None

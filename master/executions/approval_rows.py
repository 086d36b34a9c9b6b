"""Queries on approvals and votes; all functions run in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.master.executions.approval_rules import Approval, ApprovalState, Needed, Vote
from catena.master.process.clocks import ClockReading
from catena.master.store.execution_tables import APPROVAL_VOTES, APPROVALS, RUNS

_ROWS: sa.Select[Any] = sa.select(*(APPROVALS.c[name] for name in Approval._fields))
_ASKED = APPROVALS.c.state == ApprovalState.asked.value
_EXPIRING = _ROWS.where(_ASKED, APPROVALS.c.expires.is_not(None)).order_by(APPROVALS.c.expires)
_NEXT = sa.select(sa.func.min(APPROVALS.c.expires)).where(_ASKED)
_ANCHOR = (RUNS.c.anchor_wall, RUNS.c.anchor_mono, RUNS.c.anchor_boot)


class Expiring(NamedTuple):
    """An approval that waits for a limited time."""

    approval: Approval
    #: The clocks when it was requested.
    asked: ClockReading


def insert(conn: sa.Connection, run: int, values: Mapping[str, Any]) -> int:
    """Store an approval of a run; return its id."""
    key = conn.execute(sa.insert(APPROVALS).values(values)).inserted_primary_key
    assert key is not None
    conn.execute(sa.update(RUNS).where(RUNS.c.id == run).values(approval=key[0]))
    return int(key[0])


def find(conn: sa.Connection, approval: int) -> Approval | None:
    """Return an approval by its id; None if it does not exist."""
    row = conn.execute(_ROWS.where(APPROVALS.c.id == approval)).first()
    return None if row is None else _approval(row)


def expiring(conn: sa.Connection) -> list[Expiring]:
    """Return the open approvals that can expire, the earliest first."""
    return [asked_at(conn, _approval(row)) for row in conn.execute(_EXPIRING)]


def asked_at(conn: sa.Connection, approval: Approval) -> Expiring:
    """Return an approval with the clocks when it was requested."""
    query = sa.select(*_ANCHOR).where(RUNS.c.id == approval.run, RUNS.c.anchor_boot != "")
    anchor = conn.execute(query).first() if approval.run is not None else None
    if anchor is None:
        return Expiring(approval, ClockReading(approval.created, 0.0, ""))
    return Expiring(approval, ClockReading(*anchor))


def next_expiry(conn: sa.Connection) -> float | None:
    """Return when the next open approval expires; None if none does."""
    found = conn.execute(_NEXT).scalar()
    return None if found is None else float(found)


def votes(conn: sa.Connection, approval: int) -> list[Vote]:
    """Return the votes on an approval, the oldest first."""
    columns = (APPROVAL_VOTES.c[name] for name in Vote._fields)
    query = sa.select(*columns).where(APPROVAL_VOTES.c.approval == approval)
    order = (APPROVAL_VOTES.c.at, APPROVAL_VOTES.c.operator)
    return [Vote._make(row) for row in conn.execute(query.order_by(*order))]


def vote(conn: sa.Connection, approval: int, cast: Vote) -> None:
    """Store an operator's vote; it replaces an earlier one of the same operator."""
    mine = (APPROVAL_VOTES.c.approval == approval) & (APPROVAL_VOTES.c.operator == cast.operator)
    conn.execute(sa.delete(APPROVAL_VOTES).where(mine))
    conn.execute(sa.insert(APPROVAL_VOTES).values(approval=approval, **cast._asdict()))


def _approval(row: sa.Row[Any]) -> Approval:
    found = Approval._make(row)
    excluded = tuple(row.excluded or ())
    return found._replace(excluded=excluded, needed=Needed.of(row.needed))

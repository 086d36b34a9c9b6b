"""Approvals of runs: requested before a run may start, granted by a user, or withdrawn."""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa

from catena.core.fsm import Actor, Kind, Machine, Row
from catena.master.executions.ledger import Ledger, LifeCycle
from catena.master.executions.model import Movable
from catena.master.store.execution_tables import APPROVAL_VOTES, APPROVALS, RUNS


class ApprovalState(StrEnum):
    """State of an approval; stored as is."""

    asked = "asked"
    granted = "granted"
    refused = "refused"
    void = "void"
    expired = "expired"


class ApprovalEvent(StrEnum):
    """What can happen to an approval."""

    grant = "grant"
    refuse = "refuse"
    withdraw = "withdraw"
    expire = "expire"


_A, _E = ApprovalState, ApprovalEvent

APPROVAL = Machine(
    "approval",
    {
        _A.asked: Kind.wait,
        _A.granted: Kind.final,
        _A.refused: Kind.final,
        _A.void: Kind.final,
        _A.expired: Kind.final,
    },
    [_A.asked],
    [
        Row(_A.asked, _E.grant, _A.granted, Actor.api, "Enough operators agreed."),
        Row(_A.asked, _E.refuse, _A.refused, Actor.api, "An operator refused."),
        Row(_A.asked, _E.withdraw, _A.void, (Actor.api, Actor.system), "Its subject is over."),
        Row(_A.asked, _E.expire, _A.expired, Actor.system, "Nobody answered in time."),
    ],
    failures=[_E.expire],
)

_CYCLE = LifeCycle("approval", APPROVALS, APPROVAL)


def ask(ledger: Ledger, run: int, content_hash: str) -> int:
    """Request the approval of a run; return the approval's id.

    Args:
        ledger: of the running transaction.
        run: id of the run.
        content_hash: SHA-256 of the work to approve.
    """
    values = {
        "subject": "run",
        "subject_id": str(run),
        "content_hash": content_hash,
        "asked_by": ledger.who,
        "state": ApprovalState.asked.value,
        "created": ledger.now.wall,
    }
    key = ledger.conn.execute(sa.insert(APPROVALS).values(values)).inserted_primary_key
    assert key is not None
    ledger.conn.execute(sa.update(RUNS).where(RUNS.c.id == run).values(approval=key[0]))
    return int(key[0])


def grant(ledger: Ledger, approval: int, run: int) -> None:
    """Store the vote of the ledger's user and grant the approval."""
    vote = {
        "approval": approval,
        "operator": ledger.who,
        "word": "approve",
        "at": ledger.now.wall,
    }
    ledger.conn.execute(sa.insert(APPROVAL_VOTES).values(vote))
    ledger.move(_CYCLE, Movable(approval, run, ApprovalState.asked.value), ApprovalEvent.grant)


def withdraw(ledger: Ledger, approval: int, run: int) -> None:
    """Withdraw an open approval because its run has ended."""
    state = sa.select(APPROVALS.c.state).where(APPROVALS.c.id == approval)
    if ledger.conn.execute(state).scalar() == ApprovalState.asked.value:
        subject = Movable(approval, run, ApprovalState.asked.value)
        ledger.move(_CYCLE, subject, ApprovalEvent.withdraw)


def approved_by(conn: sa.Connection, approval: int | None) -> str:
    """Return the user who approved last; "" if nobody did or no approval was needed."""
    query = sa.select(APPROVAL_VOTES.c.operator).where(
        APPROVAL_VOTES.c.approval == approval, APPROVAL_VOTES.c.word == "approve"
    )
    return str(conn.execute(query.order_by(APPROVAL_VOTES.c.at.desc())).scalar() or "")

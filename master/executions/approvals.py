"""Approvals of runs: requested before a run may start; granted, refused, withdrawn or expired.

An approval pins the hash of the content to approve. A vote names the hash that the operator saw,
and counts only for that content; whoever changes the content withdraws the approval and requests
another one. The functions run in the transaction of their caller. When an approval is refused or
expires, the engine of its run ends the run in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import sqlalchemy as sa

from catena.core.errors import InvalidStateError, NotFoundError
from catena.master.executions import approval_rows, approval_rules, rows
from catena.master.executions.approval_rules import (
    APPROVAL,
    Approval,
    ApprovalEvent,
    ApprovalState,
    Needed,
    Vote,
    Voter,
)
from catena.master.executions.ledger import Ledger, LifeCycle
from catena.master.executions.model import EventItem, Movable, Run
from catena.master.store.execution_tables import APPROVALS

_CYCLE = LifeCycle("approval", APPROVALS, APPROVAL)
_ANYBODY = Needed()
#: Reason for a run whose approval nobody gave in time.
EXPIRED = "nobody approved it in time"


class Unapproved(Protocol):
    """Ends runs that do not get their approval (`executions.engine.Engines`)."""

    def unapproved(self, ledger: Ledger, run: Run, reason: str) -> Sequence[EventItem]:
        """End a run whose approval was refused or expired; return events to store with it."""


def ask(
    ledger: Ledger,
    run: int,
    content_hash: str,
    *,
    needed: Needed = _ANYBODY,
    excluded: Collection[str] = (),
    expires: float | None = None,
) -> int:
    """Request the approval of a run; return the approval's id.

    Args:
        ledger: of the running transaction.
        run: id of the run.
        content_hash: SHA-256 of the work to approve.
        needed: who has to agree.
        excluded: operators whose vote does not count.
        expires: until when, wall clock, seconds since the epoch; None: without a limit.
    """
    values = {
        "subject": "run",
        "subject_id": str(run),
        "content_hash": content_hash,
        "asked_by": ledger.who,
        "excluded": sorted(excluded),
        "needed": needed.stored(),
        "expires": expires,
        "state": ApprovalState.asked.value,
        "created": ledger.now.wall,
    }
    return approval_rows.insert(ledger.conn, run, values)


def grant(
    ledger: Ledger, approval: int, content_hash: str, roles: Collection[str] = ()
) -> ApprovalState:
    """Store the agreement of the ledger's user; return the state of the approval.

    Args:
        ledger: of the running transaction.
        approval: its id.
        content_hash: SHA-256 of the content that the user saw.
        roles: of the user.

    Returns:
        `granted`, or `asked` while further operators have to agree.

    Raises:
        NotFoundError: there is no such approval.
        InvalidStateError: it no longer waits, or its time is over, or the user has agreed before.
        ContentChangedError: the user saw another content.
        NotAllowedError: the user's vote does not count.
    """
    found = _open(ledger, approval, roles)
    approval_rules.check_content(found, content_hash)
    before = approval_rows.votes(ledger.conn, approval)
    cast = Vote(ledger.who, "approve", ledger.now.wall, "")
    if any(vote.operator == cast.operator and vote.word == cast.word for vote in before):
        raise InvalidStateError(f"approval {approval}: {ledger.who} has already agreed")
    approval_rows.vote(ledger.conn, approval, cast)
    if not approval_rules.is_agreed(found, [*before, cast]):
        ledger.note("approval", _subject(found), "agree")
        return ApprovalState.asked
    return ledger.move(_CYCLE, _subject(found), ApprovalEvent.grant)


def refuse(
    ledger: Ledger, approval: int, reason: str, engines: Unapproved, roles: Collection[str] = ()
) -> None:
    """Store the refusal of the ledger's user, and end the run that waited.

    Args:
        ledger: of the running transaction.
        approval: its id.
        reason: why, for people; the reason with which the run ends.
        engines: end the run.
        roles: of the user.

    Raises:
        NotFoundError, InvalidStateError, NotAllowedError: as `grant`.
    """
    found = _open(ledger, approval, roles)
    cast = Vote(ledger.who, "refuse", ledger.now.wall, reason)
    approval_rows.vote(ledger.conn, approval, cast)
    ledger.move(_CYCLE, _subject(found), ApprovalEvent.refuse, reason)
    why = f"refused by {ledger.who}" + (f": {reason}" if reason else "")
    _end_run(ledger, found, why, engines)


def expire(ledger: Ledger, approval: int, engines: Unapproved) -> bool:
    """End an approval whose time is over, and the run that waited; return whether it was open.

    Args:
        ledger: of the running transaction; its actor is the system.
        approval: its id.
        engines: end the run.
    """
    found = approval_rows.find(ledger.conn, approval)
    if found is None or found.state != ApprovalState.asked:
        return False
    if not _is_over(ledger, found):
        return False
    ledger.move(_CYCLE, _subject(found), ApprovalEvent.expire, EXPIRED)
    _end_run(ledger, found, EXPIRED, engines)
    return True


def withdraw(ledger: Ledger, approval: int) -> None:
    """Withdraw an open approval because its run has ended, or its content has changed."""
    found = approval_rows.find(ledger.conn, approval)
    if found is not None and found.state == ApprovalState.asked:
        ledger.move(_CYCLE, _subject(found), ApprovalEvent.withdraw)


def require(conn: sa.Connection, approval: int, content_hash: str) -> None:
    """Check that exactly this content was approved; for the transaction that starts a run.

    Raises:
        NotFoundError: there is no such approval.
        InvalidStateError: it was not granted.
        ContentChangedError: another content was approved.
    """
    found = _find(conn, approval)
    if found.state != ApprovalState.granted:
        raise InvalidStateError(f"approval {approval} is {found.state}, not granted")
    approval_rules.check_content(found, content_hash)


def approved_by(conn: sa.Connection, approval: int | None) -> str:
    """Return the user who approved last; "" if nobody did or no approval was needed."""
    votes = approval_rows.votes(conn, approval) if approval is not None else []
    return next((vote.operator for vote in reversed(votes) if vote.word == "approve"), "")


def _open(ledger: Ledger, approval: int, roles: Collection[str]) -> Approval:
    """Return an approval on which the ledger's user may vote now."""
    found = _find(ledger.conn, approval)
    approval_rules.check_open(found)
    if _is_over(ledger, found):
        raise InvalidStateError(f"approval {approval} has expired: no vote changes it")
    approval_rules.check_voter(found, Voter(ledger.who, roles))
    return found


def _find(conn: sa.Connection, approval: int) -> Approval:
    found = approval_rows.find(conn, approval)
    if found is None:
        raise NotFoundError(f"there is no approval {approval}")
    return found


def _is_over(ledger: Ledger, approval: Approval) -> bool:
    asked = approval_rows.asked_at(ledger.conn, approval).asked
    return approval_rules.is_over(approval.expires, asked, ledger.now)


def _subject(approval: Approval) -> Movable:
    return Movable(approval.id, approval.run, approval.state)


def _end_run(ledger: Ledger, approval: Approval, reason: str, engines: Unapproved) -> None:
    run = rows.run(ledger.conn, approval.run) if approval.run is not None else None
    # A retry that took the approval over has a later run; the first one has ended before.
    if run is not None and run.ended is None:
        ledger.events.extend(engines.unapproved(ledger, run, reason))

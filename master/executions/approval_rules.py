"""Who may vote on an approval, when it is granted, and when it is too late. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from catena.core.errors import InvalidStateError, NotAllowedError
from catena.core.fsm import Actor, Kind, Machine, Row
from catena.master.process.clocks import ClockReading, passed

#: Number of characters of a hash in a message.
_SHOWN = 12


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


class ContentChangedError(InvalidStateError):
    """An operator saw other content than the content that waits for approval."""


@dataclass(frozen=True)
class Needed:
    """Who has to agree."""

    #: Number of operators.
    count: int = 1
    #: Role that each of them needs; "": any.
    role: str = ""
    #: The only operators whose vote counts; (): any.
    names: tuple[str, ...] = ()

    def stored(self) -> dict[str, Any]:
        """Return it as it is stored."""
        return {"count": self.count, "role": self.role, "names": list(self.names)}

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> Needed:
        """Return what `stored` returned; without it, any one operator is enough."""
        found = stored or {}
        names = tuple(found.get("names", ()))
        return cls(int(found.get("count", 1)), str(found.get("role", "")), names)


class Approval(NamedTuple):
    """A required agreement. Times are seconds since the epoch."""

    id: int
    #: "run" or "job".
    subject: str
    subject_id: str
    #: SHA-256 of the content to approve; "": asked before contents were pinned.
    content_hash: str
    asked_by: str
    #: Operators whose vote does not count.
    excluded: tuple[str, ...]
    needed: Needed
    expires: float | None
    state: str
    created: float

    @property
    def run(self) -> int | None:
        """Return the run that needs it; None if its subject is a job."""
        return int(self.subject_id) if self.subject == "run" else None


class Vote(NamedTuple):
    """One operator's vote."""

    operator: str
    #: "approve" or "refuse".
    word: str
    at: float
    reason: str


class Voter(NamedTuple):
    """An operator who votes."""

    name: str
    roles: Collection[str] = ()


def check_open(approval: Approval) -> None:
    """Check that an approval still waits.

    Raises:
        InvalidStateError: it has been granted, refused or withdrawn, or has expired.
    """
    if approval.state != ApprovalState.asked:
        raise InvalidStateError(f"approval {approval.id} is {approval.state}: no vote changes it")


def check_content(approval: Approval, content_hash: str) -> None:
    """Check that an operator saw the content that waits for approval.

    Args:
        approval: as it is stored.
        content_hash: SHA-256 of the content that the operator saw.

    Raises:
        ContentChangedError: that was another content.
    """
    # Of approvals that an older version asked for, nobody knows the content any more.
    if approval.content_hash in ("", content_hash):
        return
    raise ContentChangedError(
        f"approval {approval.id} is for the content {approval.content_hash[:_SHOWN]}, and you saw "
        f"{content_hash[:_SHOWN] or 'none'}: it has changed; look at it again"
    )


def check_voter(approval: Approval, voter: Voter) -> None:
    """Check that an operator may vote on an approval.

    Raises:
        NotAllowedError: the operator's vote does not count; the message says why.
    """
    what, needed = f"approval {approval.id}", approval.needed
    if not voter.name:
        raise NotAllowedError(f"{what}: only a named operator can vote")
    if voter.name in approval.excluded:
        raise NotAllowedError(f"{what}: {voter.name} has a part in it; somebody else must decide")
    if needed.names and voter.name not in needed.names:
        raise NotAllowedError(f"{what}: only {', '.join(needed.names)} can vote")
    if needed.role and needed.role not in voter.roles:
        raise NotAllowedError(f"{what}: only operators with the role {needed.role} can vote")


def is_agreed(approval: Approval, votes: Sequence[Vote]) -> bool:
    """Return whether enough operators have agreed."""
    agreed = {vote.operator for vote in votes if vote.word == "approve"}
    return len(agreed) >= max(1, approval.needed.count)


def is_over(expires: float | None, asked: ClockReading, now: ClockReading) -> bool:
    """Return whether it is too late to agree.

    The earlier one of two clocks decides, because an agreement that comes too late is worse than
    one that must be asked for again: a clock that was set back does not prolong the time.

    Args:
        expires: wall clock, seconds since the epoch; None: never.
        asked: the clocks when the approval was requested.
        now: the clocks now.
    """
    if expires is None:
        return False
    return now.wall >= expires or passed(asked, now) >= expires - asked.wall

"""Replies about minions."""

from __future__ import annotations

from typing import Any, Dict, Optional

from catena.client.replies import ABSENT
from catena.core.frozen import dataclass, field


@dataclass(frozen=True)
class MinionHead:
    """The fields that the list of minions and the view of one minion share."""

    id: str
    up: bool
    #: When `up` changed last, seconds since the epoch; 0 before the first Hello.
    since: float
    #: Why a second connection of the same identity was refused; "" if there was none.
    conflict: str
    connected: bool
    #: The minion's open chains, the running one first.
    chain: str


@dataclass(frozen=True)
class MinionLine(MinionHead):
    """One minion in the list. Data of its Hello is absent before the first one."""

    last_seen: Optional[float] = field(default=None, metadata=ABSENT)
    version: Optional[str] = field(default=None, metadata=ABSENT)
    boot_id: Optional[str] = field(default=None, metadata=ABSENT)
    address: Optional[str] = field(default=None, metadata=ABSENT)
    machine_id: Optional[str] = field(default=None, metadata=ABSENT)


@dataclass(frozen=True)
class MinionJob:
    """One of the last jobs of a minion."""

    jid: str
    fun: str
    #: State of its delivery, and the reason.
    state: str
    detail: str


@dataclass(frozen=True)
class MinionDetail(MinionHead):
    """One minion with its grains and its last jobs; otherwise as `MinionLine`."""

    #: Newest first.
    jobs: tuple[MinionJob, ...]
    #: Content of its resume file; empty if there is none.
    pending_resume: Dict[str, Any]
    grains: Dict[str, Any]
    last_seen: Optional[float] = field(default=None, metadata=ABSENT)
    version: Optional[str] = field(default=None, metadata=ABSENT)
    boot_id: Optional[str] = field(default=None, metadata=ABSENT)
    address: Optional[str] = field(default=None, metadata=ABSENT)
    machine_id: Optional[str] = field(default=None, metadata=ABSENT)

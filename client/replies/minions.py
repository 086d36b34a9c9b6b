"""What the master answers about minions."""

from __future__ import annotations

from typing import Any, Dict, Optional

from catena.client.replies import ABSENT
from catena.core.frozen import dataclass, field


@dataclass(frozen=True)
class MinionLine:
    """One minion in the list. What it says in its first Hello is absent before that."""

    id: str
    up: bool
    #: When `up` changed last, seconds since the epoch; 0 before the first Hello.
    since: float
    #: Why a second connection of the same identity was refused; "" without.
    conflict: str
    connected: bool
    #: The minion's open chains, the running one first.
    chain: str
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
    #: State of its delivery, and why.
    state: str
    detail: str


@dataclass(frozen=True)
class MinionDetail:
    """One minion with its grains and its last jobs; otherwise as `MinionLine`."""

    id: str
    up: bool
    since: float
    conflict: str
    connected: bool
    chain: str
    #: Newest first.
    jobs: tuple[MinionJob, ...]
    #: What its resume file says; empty without one.
    pending_resume: Dict[str, Any]
    grains: Dict[str, Any]
    last_seen: Optional[float] = field(default=None, metadata=ABSENT)
    version: Optional[str] = field(default=None, metadata=ABSENT)
    boot_id: Optional[str] = field(default=None, metadata=ABSENT)
    address: Optional[str] = field(default=None, metadata=ABSENT)
    machine_id: Optional[str] = field(default=None, metadata=ABSENT)

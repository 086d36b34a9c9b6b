"""Calls of the master's functions, and of other minions, that a minion asks for."""

from __future__ import annotations

from typing import Any

from catena.core.frozen import dataclass
from catena.core.peer import PeerCall


@dataclass(frozen=True)
class PeerRequest:
    """Asks the master to call something. The connection identifies the minion."""

    call: PeerCall


@dataclass(frozen=True)
class PeerReply:
    """What the call returned."""

    value: Any

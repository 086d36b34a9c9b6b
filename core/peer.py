"""Calls that a minion asks the master to make: jobs on other minions, runners, wheel functions."""

from __future__ import annotations

from enum import Enum
from typing import Any, Dict

from catena.core.frozen import dataclass, field

#: Longest wait for the returns of other minions, in seconds.
LONGEST_SECONDS = 60.0


class PeerKind(str, Enum):
    """What a minion asks for."""

    #: A function on other minions (setting `peer`).
    publish = "publish"
    #: A runner of the master (setting `peer_run`).
    runner = "runner"
    #: A wheel function of the master (setting `peer_wheel`).
    wheel = "wheel"


@dataclass(frozen=True)
class PeerCall:
    """One call."""

    kind: PeerKind
    fun: str
    args: tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)
    #: Which minions, for `publish`.
    tgt: str = ""
    tgt_type: str = "glob"
    #: Seconds to wait for returns, for `publish`.
    seconds: float = 5.0

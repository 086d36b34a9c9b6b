"""Minions known to the master."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass
from catena.core.lazy import LazyModule

if TYPE_CHECKING:
    from catena.client.replies import minions as replies
else:
    replies = LazyModule("catena.client.replies.minions")


@dataclass(frozen=True)
class MinionList:
    """List the accepted minions of a target."""

    tgt: str = "*"
    tgt_type: str = "glob"


@dataclass(frozen=True)
class MinionShow:
    """Show one minion with its grains, jobs and chains."""

    id: str


LIST = Ask("minion.list", MinionList, lambda: List[replies.MinionLine], idempotent=True)
SHOW = Ask("minion.show", MinionShow, lambda: replies.MinionDetail, idempotent=True)

"""What the master knows of minions."""

from __future__ import annotations

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass


@dataclass(frozen=True)
class MinionList:
    """Minions: [{id, up, since, version, boot_id, address, chain, conflict}]."""

    tgt: str = "*"
    tgt_type: str = "glob"


@dataclass(frozen=True)
class MinionShow:
    """One minion with grains, jobs, chain queue."""

    id: str


LIST = Ask("minion.list", MinionList, dict, idempotent=True)
SHOW = Ask("minion.show", MinionShow, dict, idempotent=True)

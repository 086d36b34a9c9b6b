"""Handlers of the verbs of minions."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from catena.client.replies.minions import MinionDetail, MinionLine
from catena.client.requests import minions as asks
from catena.client.requests.minions import MinionList, MinionShow
from catena.master.gate.views import MinionViews
from catena.master.jobs.targets import Targets
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import verb


@dataclass(frozen=True, slots=True)
class MinionHandlers:
    """One method per verb, which takes the caller and the request record."""

    minions: MinionViews
    targets: Targets

    @verb(asks.LIST, Right.read_minions)
    async def list(self, caller: Caller, asked: MinionList) -> builtins.list[MinionLine]:
        """List minions."""
        names = await self.targets.resolve(asked.tgt, asked.tgt_type)
        return await self.minions.list(names)

    @verb(asks.SHOW, Right.read_minions)
    async def show(self, caller: Caller, asked: MinionShow) -> MinionDetail:
        """Show one minion."""
        return await self.minions.show(asked.id)

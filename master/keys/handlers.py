"""Handlers of the verbs of keys and enrol tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catena.client.requests import keys as asks
from catena.client.requests.keys import KeyChange, KeyFinger, KeyList, TokenCreate
from catena.master.keys.service import Keys
from catena.master.minions.sessions import Link, Sessions
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import verb
from catena.transport.messages import KeyRotate


@dataclass(frozen=True, slots=True)
class KeyHandlers:
    """One method per verb: takes the caller and the record."""

    keys: Keys
    sessions: Sessions
    link: Link
    master_fingerprint: str

    @verb(asks.LIST, Right.read_keys)
    async def list(self, caller: Caller, asked: KeyList) -> Any:
        """List keys."""
        return await self.keys.list(asked.match)

    @verb(asks.CHANGE, Right.decide_keys)
    async def change(self, caller: Caller, asked: KeyChange) -> Any:
        """Accept, reject, delete or rotate keys."""
        decided = (asked.action, asked.match, asked.include, caller.name, caller.once)
        changed = await self.keys.change(*decided)
        if asked.action == "rotate":
            # Only a connected minion can make a new key now; the others are not named.
            sessions = [self.sessions.get(name) for name in changed]
            changed = [s.minion for s in sessions if s and self.link.send(s.peer, KeyRotate())]
        return {"changed": changed, "told": self.keys.told(changed)}

    @verb(asks.FINGER, Right.read_keys)
    async def finger(self, caller: Caller, asked: KeyFinger) -> Any:
        """Show fingerprints."""
        minions = self.keys.fingers(asked.match)
        return {"master": self.master_fingerprint, "minions": minions}

    @verb(asks.TOKEN, Right.decide_keys, repeats=True)
    async def token(self, caller: Caller, asked: TokenCreate) -> Any:
        """Make an enrol token; one request key makes one token, which is stored nowhere."""
        return await self.keys.make_token(asked.id, asked.valid_seconds, caller.name, caller.once)

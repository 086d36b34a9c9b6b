"""Handlers of the verbs of keys and enrol tokens."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from catena.client.replies.keys import EnrolToken, Fingerprints, KeyLine, KeysChanged
from catena.client.requests import keys as asks
from catena.client.requests.keys import KeyChange, KeyFinger, KeyList, TokenCreate
from catena.master.keys.service import Keys
from catena.master.minions.sessions import MessageSender, Sessions
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import verb
from catena.transport.messages import KeyRotate


@dataclass(frozen=True, slots=True)
class KeyHandlers:
    """One method per verb, which takes the caller and the request record."""

    keys: Keys
    sessions: Sessions
    link: MessageSender
    master_fingerprint: str

    @verb(asks.LIST, Right.read_keys)
    async def list(self, caller: Caller, asked: KeyList) -> dict[str, builtins.list[KeyLine]]:
        """List keys."""
        return await self.keys.list(asked.match)

    @verb(asks.CHANGE, Right.decide_keys)
    async def change(self, caller: Caller, asked: KeyChange) -> KeysChanged:
        """Accept, reject, delete or rotate keys."""
        decided = (asked.action, asked.match, asked.include, caller.name, caller.once)
        changed = await self.keys.change(*decided)
        if asked.action == "rotate":
            # Only connected minions can make a new key now; the others are omitted.
            sessions = [self.sessions.get(name) for name in changed]
            changed = [s.minion for s in sessions if s and self.link.send(s.peer, KeyRotate())]
        return KeysChanged(tuple(changed), tuple(self.keys.notified(changed)))

    @verb(asks.FINGER, Right.read_keys)
    async def finger(self, caller: Caller, asked: KeyFinger) -> Fingerprints:
        """Show fingerprints."""
        return Fingerprints(self.master_fingerprint, self.keys.fingers(asked.match))

    @verb(asks.TOKEN, Right.decide_keys, repeats=True)
    async def token(self, caller: Caller, asked: TokenCreate) -> EnrolToken:
        """Make an enrol token; each request key makes one token, which is not stored."""
        return await self.keys.make_token(asked.id, asked.valid_seconds, caller.name, caller.once)

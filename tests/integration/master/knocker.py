"""A minion that asks a master to enrol its key."""

from __future__ import annotations

from typing import Any

from catena.transport.keys import KeyPair, generate, token_proof
from catena.transport.messages import (
    EnrolReply,
    EnrolRequest,
    Envelope,
)
from catena.transport.peers import Peer
from tests.integration.master.bench import Bench


class Knocker:
    """A stranger on the enrol socket."""

    def __init__(self, master: Bench, name: str, address: str = "10.0.0.9") -> None:
        self.master = master
        self.name = name
        self.pair: KeyPair = generate()
        self.peer = Peer("enrol", b"abcde", self.pair.fingerprint, address, self.pair.public)
        self.heard: list[Any] = []
        self._send = master.wire.send
        master.wire.send = self._catch  # type: ignore[method-assign]

    def _catch(self, peer: Peer, message: Any, *args: Any, **kwargs: Any) -> bool:
        if peer == self.peer:
            self.heard.append(message)
            return True
        return self._send(peer, message, *args, **kwargs)

    async def say(self, message: Any) -> Any:
        self.master.gate.on_message(self.peer, Envelope(b"i" * 16, bytes(16), message))
        await self.master.settle()
        return self.heard[-1]

    async def ask(self, name: str = "", token: str = "", proof: str = "") -> EnrolReply:
        if token:
            master_key = self.master.pair.public
            proof = token_proof(token, self.pair.public, master_key, name or self.name)
        request = EnrolRequest(name or self.name, f"mach-{self.name}", "1", proof)
        reply = await self.say(request)
        assert isinstance(reply, EnrolReply)
        return reply

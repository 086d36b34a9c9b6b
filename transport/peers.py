"""Accepted keys, connected peers, and the addresses of the sockets."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, Optional

from catena.core.config.minion import PORT
from catena.core.frozen import dataclass
from catena.transport.keys import fingerprint, key_bytes


@dataclass(frozen=True)
class Endpoints:
    """The three sockets of a master, as ZeroMQ addresses ("tcp://host:port")."""

    control: str
    bulk: str
    enrol: str

    @classmethod
    def of(cls, host: str, port: int = PORT) -> Endpoints:
        """Return the sockets of *host*: control at *port*, bulk at +1, enrol at +2."""
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return cls(*(f"tcp://{shown}:{port + offset}" for offset in range(3)))

    def named(self, socket: str) -> str:
        """Return the address of "control", "bulk" or "enrol"."""
        return {"control": self.control, "bulk": self.bulk, "enrol": self.enrol}[socket]


@dataclass(frozen=True)
class Peer:
    """One connection of a minion, with the identity that the channel proves."""

    #: "control", "bulk" or "enrol".
    socket: str
    #: Assigned by the master's ROUTER, never chosen by the client; new for every connection.
    routing_id: bytes
    #: Fingerprint of the key that the client has proved; the only trusted identity.
    user_id: str
    #: IP address, for display only.
    address: str
    #: The public key itself, Z85; an enrol handler stores it to accept it later.
    key: str


class KeyTable:
    """The accepted keys in memory; the ZAP handler and the gateway check every frame against it.

    Changes take effect at once. `accept` and `revoke` may be called from any thread; listeners
    run in the calling thread.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._by_raw: Dict[bytes, str] = {}
        self._by_print: Dict[str, str] = {}
        self._listeners: List[Callable[[str], None]] = []
        for key in keys:
            self.accept(key)

    def accept(self, public: str) -> None:
        """Admit the holder of *public* (Z85) from now on.

        Raises:
            BadKeyError: *public* is not a key.
        """
        raw = key_bytes(public)
        user_id = fingerprint(public)
        self._by_print[user_id] = public
        self._by_raw[raw] = user_id

    def revoke(self, public: str) -> None:
        """Refuse the holder of *public* from now on, on existing connections too."""
        user_id = fingerprint(public)
        self._by_raw.pop(key_bytes(public), None)
        if self._by_print.pop(user_id, None) is not None:
            for listener in list(self._listeners):
                listener(user_id)

    def on_revoke(self, listener: Callable[[str], None]) -> None:
        """Call *listener* with the fingerprint of each revoked key."""
        self._listeners.append(listener)

    def user_id_of(self, raw: bytes) -> Optional[str]:
        """Return the fingerprint of an accepted key given as 32 bytes, or None."""
        return self._by_raw.get(raw)

    def key_of(self, user_id: str) -> Optional[str]:
        """Return the accepted key with a fingerprint, or None."""
        return self._by_print.get(user_id)

    def __contains__(self, user_id: str) -> bool:
        return user_id in self._by_print

    def __len__(self) -> int:
        return len(self._by_print)

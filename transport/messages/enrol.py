"""Enrolment: a minion with an unknown key asks for its acceptance (enrol socket)."""

from __future__ import annotations

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class EnrolProbe:
    """A minion that does not know the master's key asks for it."""


@dataclass(frozen=True)
class EnrolOffer:
    """The master's public key. A minion trusts it by its fingerprint or on first use only."""

    #: CURVE public key, 40 characters of Z85.
    master_key: str
    #: Version of the master.
    version: str


@dataclass(frozen=True)
class EnrolRequest:
    """A minion asks the master to accept the key of this connection for a minion id."""

    id: str
    machine_id: str
    version: str
    #: HMAC-SHA256, hex, keyed by SHA-256(token), over minion key, master key and id; "" if no
    #: token.
    token_proof: str = ""


@dataclass(frozen=True)
class EnrolReply:
    """What the master has decided about a key."""

    #: "accepted", "pending", "rejected", "denied".
    state: str
    #: Why, and what to do; for people.
    reason: str
    master_key: str
    #: Seconds until the minion should ask again; 0 with "accepted".
    retry_seconds: float

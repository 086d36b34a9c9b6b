"""Enrolment: a key that nobody knows yet asks to be accepted (enrol socket)."""

from __future__ import annotations

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class EnrolProbe:
    """A minion that knows no master key asks for it."""


@dataclass(frozen=True)
class EnrolOffer:
    """The master's public key; to be trusted only by its fingerprint or on first use."""

    #: CURVE public key, 40 characters of Z85.
    master_key: str
    #: Version of the master.
    version: str


@dataclass(frozen=True)
class EnrolRequest:
    """A minion asks for its key (the one it connects with) to be accepted under an id."""

    id: str
    machine_id: str
    version: str
    #: HMAC-SHA256, hex, keyed by SHA-256(token), over minion key, master key and id; "" without.
    token_proof: str = ""


@dataclass(frozen=True)
class EnrolReply:
    """What the master knows of a key."""

    #: "accepted", "pending", "rejected", "denied".
    state: str
    #: For people: why, and what to do.
    reason: str
    master_key: str
    #: Ask again after this long; 0 with "accepted".
    retry_seconds: float

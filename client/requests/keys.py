"""Keys of minions and enrol tokens."""

from __future__ import annotations

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass


@dataclass(frozen=True)
class KeyList:
    """Keys by state: {state: [{id, fingerprint, address, since, machine_id, conflict}]}."""

    match: str = "*"


@dataclass(frozen=True)
class KeyChange:
    """Accept, reject, delete or rotate keys by id glob.

    Reply: {"changed": [ids], "told": [ids]}; who is told that it is accepted connects at once.
    """

    action: str
    match: str
    #: Also keys that are in another state than the action's usual one.
    include: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeyFinger:
    """Fingerprints: {"master": ..., "minions": {id: ...}}."""

    match: str = "*"


@dataclass(frozen=True)
class TokenCreate:
    """Make a one-time enrol token: {"token": ..., "expires": ...}. Shown once, stored hashed."""

    #: Only for this id; "" for any.
    id: str = ""
    valid_seconds: int = 3600


LIST = Ask("key.list", KeyList, dict, idempotent=True)
#: No key of a rotation is stored: a repetition changes nothing.
CHANGE = Ask("key.change", KeyChange, dict)
FINGER = Ask("key.finger", KeyFinger, dict, idempotent=True)
TOKEN = Ask("key.token", TokenCreate, dict)

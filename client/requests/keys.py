"""Keys of minions and enrol tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass
from catena.core.lazy import LazyModule

if TYPE_CHECKING:
    from catena.client.replies import keys as replies
else:
    replies = LazyModule("catena.client.replies.keys")


@dataclass(frozen=True)
class KeyList:
    """List keys by state."""

    match: str = "*"


@dataclass(frozen=True)
class KeyChange:
    """Accept, reject, delete or rotate keys by id glob."""

    action: str
    match: str
    #: Further states whose keys are changed, beside the action's usual one.
    include: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeyFinger:
    """Show fingerprints."""

    match: str = "*"


@dataclass(frozen=True)
class TokenCreate:
    """Create a one-time enrol token."""

    #: The only minion id that may use it; "" for any.
    id: str = ""
    valid_seconds: int = 3600


LIST = Ask("key.list", KeyList, lambda: Dict[str, List[replies.KeyLine]], idempotent=True)
#: No key of a rotation is stored: a repetition changes nothing.
CHANGE = Ask("key.change", KeyChange, lambda: replies.KeysChanged)
FINGER = Ask("key.finger", KeyFinger, lambda: replies.Fingerprints, idempotent=True)
TOKEN = Ask("key.token", TokenCreate, lambda: replies.EnrolToken)

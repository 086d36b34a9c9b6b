"""Files that clients send before another request names them."""

from __future__ import annotations

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass


@dataclass(frozen=True)
class BlobPut:
    """One piece of a file that a later request names by its SHA-256."""

    sha256: str
    index: int
    count: int
    data: bytes


@dataclass(frozen=True)
class BlobState:
    """What the master has of a file."""

    #: Whether all pieces are there and have the hash.
    whole: bool


#: A repetition changes nothing, and no key of it is stored.
PUT = Ask("blob.put", BlobPut, lambda: BlobState)

"""Files that a client uploads before another request refers to them."""

from __future__ import annotations

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass


@dataclass(frozen=True)
class BlobPut:
    """One piece of a file to which a later request refers by its SHA-256."""

    sha256: str
    index: int
    count: int
    data: bytes


@dataclass(frozen=True)
class BlobState:
    """The master's state of an upload."""

    #: Whether the upload is complete and matches its hash.
    whole: bool


#: A repetition changes nothing, and no key of it is stored.
PUT = Ask("blob.put", BlobPut, lambda: BlobState)

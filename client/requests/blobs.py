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


#: A repetition changes nothing, and no key of it is stored.
PUT = Ask("blob.put", BlobPut, dict)

"""SHA-256 and its HMAC without OpenSSL.

`hashlib` and `hmac` load libcrypto, which costs a long-running process 3.6 MB. CPython's built-in
SHA-256 is half as fast, which is enough for keys and for the files of an idle agent.
"""

from __future__ import annotations

from typing import Protocol, Union

try:
    # CPython 3.12 and later.
    from _sha2 import sha256 as _sha256  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    try:
        from _sha256 import (  # type: ignore[import-not-found,no-redef,unused-ignore]
            sha256 as _sha256,
        )
    except ImportError:
        from hashlib import sha256 as _sha256
from _operator import _compare_digest

_BLOCK = 64
_INNER = bytes(0x36 ^ byte for byte in range(256))
_OUTER = bytes(0x5C ^ byte for byte in range(256))

#: `sha256_for` uses OpenSSL for data above this many bytes.
LARGE_BYTES = 64 * 1024

Data = Union[bytes, bytearray, memoryview]


class Hash(Protocol):
    """A hash object that is updated piece by piece."""

    def update(self, data: Data, /) -> None:
        """Add *data*."""

    def digest(self) -> bytes:
        """Return the digest of all data so far."""

    def hexdigest(self) -> str:
        """Return the digest as hex."""


def sha256(data: Data = b"") -> Hash:
    """Return a hash object as `hashlib.sha256` does."""
    made: Hash = _sha256(data)
    return made


def sha256_for(size: int) -> Hash:
    """Return a hash object for *size* bytes, from OpenSSL if that is worth loading it."""
    if size <= LARGE_BYTES:
        return sha256()
    import hashlib

    return hashlib.sha256()


def hex_of(data: Data) -> str:
    """Return the SHA-256 of *data*, hex."""
    digest = sha256_for(len(data))
    digest.update(data)
    return digest.hexdigest()


def hmac_sha256(key: bytes, data: bytes) -> bytes:
    """Return the HMAC-SHA256 (RFC 2104) of *data*, 32 bytes."""
    if len(key) > _BLOCK:
        key = sha256(key).digest()
    padded = key.ljust(_BLOCK, b"\0")
    inner = sha256(padded.translate(_INNER) + data).digest()
    return sha256(padded.translate(_OUTER) + inner).digest()


def same_digest(first: bytes, second: bytes) -> bool:
    """Compare two digests in a time that does not depend on where they differ."""
    return bool(_compare_digest(first, second))

"""SHA-256 and its HMAC, without OpenSSL.

`hashlib` and `hmac` load libcrypto: 3.6 MB in a process that stays. CPython carries its own
SHA-256 beside it, half as fast, which is plenty for keys and for files of an idle agent.
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

#: More is hashed by OpenSSL where who hashes asks by size.
LARGE_BYTES = 64 * 1024

Data = Union[bytes, bytearray, memoryview]


class Hash(Protocol):
    """A hash that is fed."""

    def update(self, data: Data, /) -> None:
        """Feed it."""

    def digest(self) -> bytes:
        """Return what it came to."""

    def hexdigest(self) -> str:
        """Return the same as hex."""


def sha256(data: Data = b"") -> Hash:
    """Return a hash object as `hashlib.sha256` does."""
    made: Hash = _sha256(data)
    return made


def sha256_for(size: int) -> Hash:
    """Return a hash object for *size* bytes: OpenSSL's where that is worth its loading."""
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

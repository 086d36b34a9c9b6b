"""Public keys of OpenPGP: read their packets, and change between text (armor) and bytes.

Repositories' keys are handled without gpg, which a minimal system lacks. No signature is checked
here: package managers do that.
"""

from __future__ import annotations

import struct
from typing import Iterator, List, Optional, Tuple

from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass, replace

#: Maximum bytes of a keyring.
KEY_LIMIT = 4 * 1024 * 1024
_BEGIN = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_END = b"-----END PGP PUBLIC KEY BLOCK-----"
_PUBLIC, _SUBKEY, _USER_ID = 6, 14, 13
_SECRET = (5, 7)
#: First bytes of a gpg keybox, at offset 8.
_KEYBOX = b"KBXf"
#: Algorithms whose first number has the length of the key.
_WITH_MODULUS = (1, 2, 3, 16, 17)


@dataclass(frozen=True)
class PublicKey:
    """One primary key."""

    #: Hexadecimal digits in capitals: the whole fingerprint, and the 16 digits of the key id.
    fingerprint: str
    keyid: str
    algorithm: int
    #: Length in bits; 0 for keys on curves.
    bits: int
    #: Seconds since 1970.
    created: int
    user_ids: Tuple[str, ...] = ()
    subkeys: Tuple[PublicKey, ...] = ()

    def has_id(self, digits: str) -> bool:
        """Return whether *digits* are the end of the fingerprint of the key or of a subkey."""
        wanted = digits.upper()
        return any(
            one.keyid == wanted or one.fingerprint.endswith(wanted)
            for one in (self, *self.subkeys)
        )


def binary_keyring(data: bytes, origin: str) -> bytes:
    """Return a keyring as bytes, whether *data* is armored or not.

    Args:
        data: what was downloaded or read.
        origin: where it is from, for messages.

    Raises:
        CommandExecutionError: it is no public key.
    """
    found = _dearmored(data, origin) if is_armored(data) else data
    if not public_keys(found, origin):
        raise CommandExecutionError(f"{origin}: is no OpenPGP public key{_likely(data)}")
    return found


def _likely(data: bytes) -> str:
    start = data.lstrip()[:200].decode("utf-8", "replace")
    if start.lower().startswith(("<!doctype", "<html", "<?xml", "<head")):
        return " but a page of HTML; check the address of the key"
    if data[8:12] == _KEYBOX:
        return " but a keybox of gpg, which apt can't read; export the key with gpg --export"
    if not data.strip():
        return ": it is empty"
    printable = start.splitlines()[0][:40] if start.isprintable() or "\n" in start else ""
    return f"; it begins with {printable!r}" if printable else ""


def _dearmored(data: bytes, origin: str) -> bytes:
    """Return the bytes of all armored blocks."""
    import base64
    import binascii

    found = []
    for block in data.split(_BEGIN)[1:]:
        body, mark, _ = block.partition(_END)
        # Headers have a colon, which is no digit of base64.
        lines = [line.strip() for line in body.splitlines() if b":" not in line]
        lines = [line for line in lines if line]
        has_checksum = lines and len(lines[-1]) == 5 and lines[-1].startswith(b"=")
        checksum = lines.pop() if has_checksum else b""
        try:
            decoded = base64.b64decode(b"".join(lines), validate=True)
            wrong = bool(checksum) and base64.b64decode(checksum[1:]) != _crc24(decoded)
        except binascii.Error as error:
            raise CommandExecutionError(
                f"{origin}: the armored key is damaged: {error}"
            ) from error
        if not mark or wrong:
            raise CommandExecutionError(f"{origin}: the armored key is incomplete or damaged")
        found.append(decoded)
    return b"".join(found)


def is_armored(data: bytes) -> bool:
    """Return whether a keyring is text."""
    return _BEGIN in data


def armored(data: bytes) -> bytes:
    """Return a binary keyring as text."""
    import base64

    text = base64.b64encode(data)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    checksum = b"=" + base64.b64encode(_crc24(data))
    return b"\n".join([_BEGIN, b"", *lines, checksum, _END, b""])


def _crc24(data: bytes) -> bytes:
    """Return the checksum of an armored block (RFC 4880, section 6.1)."""
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1864CFB
    return (crc & 0xFFFFFF).to_bytes(3, "big")


def public_keys(data: bytes, origin: str) -> List[PublicKey]:
    """Return the primary keys of a binary keyring with their user ids and subkeys.

    Raises:
        CommandExecutionError: the packets are damaged, or are those of a secret key.
    """
    found: List[PublicKey] = []
    for tag, body in _packets(data, origin):
        if tag in _SECRET:
            raise CommandExecutionError(f"{origin}: is a secret key; give the public one")
        if tag == _PUBLIC:
            key = _key(body)
            if key is not None:
                found.append(key)
        elif found and tag == _USER_ID:
            name = body.decode("utf-8", "replace")
            found[-1] = replace(found[-1], user_ids=(*found[-1].user_ids, name))
        elif found and tag == _SUBKEY:
            key = _key(body)
            if key is not None:
                found[-1] = replace(found[-1], subkeys=(*found[-1].subkeys, key))
    return found


def _packets(data: bytes, origin: str) -> Iterator[Tuple[int, bytes]]:
    """Yield tag and body of each packet; nothing if *data* begins with none."""
    at = 0
    while at < len(data):
        first = data[at]
        header = _header(data, at) if first & 0x80 else None
        if header is None:
            if at == 0:
                return
            raise CommandExecutionError(f"{origin}: the key is damaged at byte {at}")
        tag, start, length = header
        if start + length > len(data):
            if at == 0:
                return
            raise CommandExecutionError(f"{origin}: the key is incomplete")
        yield tag, data[start : start + length]
        at = start + length


def _header(data: bytes, at: int) -> Optional[Tuple[int, int, int]]:
    """Return tag, start and length of the packet at *at*; None if it is cut or has no length."""
    first, rest = data[at], data[at + 1 : at + 6]
    if first & 0x40:
        tag = first & 0x3F
        if len(rest) >= 1 and rest[0] < 192:
            return tag, at + 2, rest[0]
        if len(rest) >= 2 and rest[0] < 224:
            return tag, at + 3, ((rest[0] - 192) << 8) + rest[1] + 192
        if len(rest) >= 5 and rest[0] == 255:
            return tag, at + 6, int.from_bytes(rest[1:5], "big")
        return None
    tag, size = (first >> 2) & 0xF, (1, 2, 4, 0)[first & 3]
    if not size or len(rest) < size:
        return None
    return tag, at + 1 + size, int.from_bytes(rest[:size], "big")


def _key(body: bytes) -> Optional[PublicKey]:
    """Return the key in a packet's body, or None for a version that is not known."""
    import hashlib

    if len(body) < 8 or body[0] not in (4, 6):
        return None
    created, algorithm = struct.unpack(">IB", body[1:6])
    if body[0] == 4:
        head = b"\x99" + struct.pack(">H", len(body) & 0xFFFF)
        digest = hashlib.sha1(head + body, usedforsecurity=False).hexdigest().upper()
        keyid, numbers = digest[-16:], body[6:8]
    else:
        digest = hashlib.sha256(b"\x9b" + struct.pack(">I", len(body)) + body).hexdigest().upper()
        keyid, numbers = digest[:16], body[10:12]
    bits = int.from_bytes(numbers, "big") if algorithm in _WITH_MODULUS else 0
    return PublicKey(digest, keyid, algorithm, bits, created)

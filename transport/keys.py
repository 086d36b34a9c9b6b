"""CURVE key pairs: generation, storage in files that only their owner can read, fingerprints.

The text form is Z85 (ZeroMQ RFC 32): 40 characters for 32 bytes. `zmq` is imported only to
generate a pair, so that a command line that only compares keys starts quickly.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from catena.core.digest import hmac_sha256, same_digest, sha256
from catena.core.errors import CatenaError, UsageError
from catena.core.files import (
    AnyPath,
    key_folder,
    read_limited,
    rename_durable,
    sync_folder,
    unlink_durable,
    write_durable,
)
from catena.core.frozen import dataclass, field

KEY_CHARACTERS = 40
KEY_BYTES = 32
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUE = {character: index for index, character in enumerate(_Z85)}
_PROOF_CONTEXT = b"catena enrol 1\0"


class BadKeyError(UsageError):
    """A text is not a CURVE key of 40 Z85 characters."""


class UnsafeKeyError(CatenaError):
    """A secret key's file is accessible to others, or does not contain a key."""


@dataclass(frozen=True)
class KeyPair:
    """A CURVE key pair, both keys as Z85. The repr omits the secret."""

    public: str
    secret: str = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Return the public key's fingerprint."""
        return fingerprint(self.public)


#: The key pair of every master's enrol socket. Its secret is PUBLISHED on purpose: a client can't
#: use CURVE before it knows a key, and with this one it fetches the master's real key. The pair
#: protects nothing. The offered key is trusted by its fingerprint or on first use. A token's
#: proof is bound to both real keys, so that a man in the middle cannot use it.
BOOTSTRAP = KeyPair(
    public="IsIQuCAx0nu0F6ORv:j+x$[LaHGVpc>Y-m?(kB*O",
    secret=":5dK3IQowJc^uGIo-5T>sas%&?>8n9r]iNKSXc]J",
)


def key_bytes(key: str) -> bytes:
    """Return the 32 bytes of a Z85 key.

    Raises:
        BadKeyError: *key* is not a key.
    """
    if len(key) != KEY_CHARACTERS:
        raise BadKeyError
    out = bytearray()
    for at in range(0, KEY_CHARACTERS, 5):
        number = 0
        for character in key[at : at + 5]:
            if character not in _VALUE:
                raise BadKeyError
            number = number * 85 + _VALUE[character]
        if number > 0xFFFFFFFF:
            raise BadKeyError
        out += number.to_bytes(4, "big")
    return bytes(out)


def key_text(raw: bytes) -> str:
    """Return 32 bytes as a Z85 key.

    Raises:
        BadKeyError: not 32 bytes.
    """
    if len(raw) != KEY_BYTES:
        raise BadKeyError
    out = []
    for at in range(0, KEY_BYTES, 4):
        number = int.from_bytes(raw[at : at + 4], "big")
        out += [_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(out)


def fingerprint(public: str) -> str:
    """Return the SHA-256 of a public key's 32 bytes as 64 hex digits.

    Raises:
        BadKeyError: *public* is not a key.
    """
    return sha256(key_bytes(public)).hexdigest()


def same_fingerprint(first: str, second: str) -> bool:
    """Return whether two fingerprints are equal, written with or without colons, in any case."""
    return same_digest(_normal(first).encode(), _normal(second).encode())


def _normal(text: str) -> str:
    return text.replace(":", "").strip().lower()


def generate() -> KeyPair:
    """Return a new key pair from the system's random source."""
    import zmq

    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode("ascii"), secret.decode("ascii"))


def load_or_create(folder: AnyPath, name: str = "curve") -> KeyPair:
    """Return the key pair stored in *folder*; create it durably if there is none.

    `<name>.key` contains the secret (mode 0600), `<name>.pub` the public key for people.

    Raises:
        UnsafeFolderError: the folder belongs to another user or is writable by others.
        UnsafeKeyError: the file is accessible to others or damaged. It is never replaced
            automatically: a new key would have to be accepted, and a backup may have the old one.
    """
    path = key_folder(folder) / f"{name}.key"
    try:
        pair = load(folder, name)
    except FileNotFoundError:
        pair = generate()
    else:
        # A killed predecessor may have written the key without syncing the folder. A peer may
        # accept this key, so it must survive a power failure.
        sync_folder(folder)
        return pair
    write_durable(path.with_suffix(".pub"), public_file(pair), 0o644)
    write_durable(path, pair.secret.encode() + b"\n", 0o600)
    return pair


def public_file(pair: KeyPair) -> bytes:
    """Return the content of a public key's file, which is for people."""
    return pair.public.encode() + b"\n"


def load(folder: AnyPath, name: str = "curve") -> KeyPair:
    """Return the key pair *name* of *folder*.

    Raises:
        FileNotFoundError: there is none.
        UnsafeKeyError: its file is accessible to others or damaged.
    """
    path = Path(folder) / f"{name}.key"
    found = path.lstat()
    # Imported here: a host that is reached only over SSH has neither a key nor zmq.
    import zmq

    if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid != os.geteuid():
        raise UnsafeKeyError(f"{path}: must be a file of mode 0600 of this user")
    secret = read_limited(path, 256).decode("ascii", "replace").strip()
    try:
        key_bytes(secret)
    except BadKeyError:
        raise UnsafeKeyError(
            f"{path}: holds no key; restore it, or remove it for a new one"
        ) from None
    return KeyPair(zmq.curve_public(secret.encode()).decode("ascii"), secret)


def check_pair(folder: AnyPath, pair: KeyPair, name: str = "curve") -> None:
    """Compare a key pair with the public key file beside it, if there is one.

    This detects a damaged secret key: after a bit flip it is still a valid key, but of no peer.

    Raises:
        UnsafeKeyError: secret and public key do not match.
    """
    path = Path(folder) / f"{name}.pub"
    try:
        public = read_limited(path, 256).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return
    if public != pair.public:
        raise UnsafeKeyError(
            f"{path} is not the public key of {path.with_suffix('.key')}: one of them is damaged; "
            f"restore both from a backup, or remove {path} if the key is right"
        )


def promote(folder: AnyPath, name: str, over: str = "curve") -> KeyPair:
    """Rename the key pair *name* to *over*, durably (the last step of a rotation)."""
    pair = load(folder, name)
    home = Path(folder)
    rename_durable(home / f"{name}.key", home / f"{over}.key")
    write_durable(home / f"{over}.pub", public_file(pair), 0o644)
    unlink_durable(home / f"{name}.pub")
    return pair


def token_digest(token: str) -> bytes:
    """Return the form in which the master stores a token: its SHA-256."""
    return sha256(token.encode()).digest()


def token_proof(token: str, minion_key: str, master_key: str, id: str) -> str:
    """Return the proof that the holder of *minion_key* knows *token*, for `EnrolRequest`.

    It is bound to both public keys and the id, so it is useless to another master and with
    another key.
    """
    return proof_by_digest(token_digest(token), minion_key, master_key, id)


def proof_by_digest(digest: bytes, minion_key: str, master_key: str, id: str) -> str:
    """Return the proof from a stored `token_digest`; compare it with `hmac.compare_digest`."""
    text = _PROOF_CONTEXT + key_bytes(minion_key) + key_bytes(master_key) + id.encode()
    return hmac_sha256(digest, text).hex()

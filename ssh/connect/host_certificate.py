"""Check certificates of hosts against the authorities of known_hosts.

The format is that of OpenSSH's PROTOCOL.certkeys. The key exchange has proved that the host holds
the key. This module checks that an authority has signed the certificate for this name and time.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase

from catena.core.errors import CatenaError
from catena.core.frozen import dataclass
from catena.ssh.connect import library

#: Suffix of the names of certificate types.
SUFFIX = "-cert-v01@openssh.com"
SIZE_LIMIT = 64 * 1024
_HOST = 2
#: Number of fields of the key itself, by key type.
_KEY_FIELDS = {"ssh-ed25519": 1, "ssh-rsa": 2}
_ECDSA_FIELDS = 2
#: Accepted signature algorithms; ssh-rsa is missing because it uses SHA-1.
_SIGNATURES = frozenset(
    """ssh-ed25519 rsa-sha2-512 rsa-sha2-256
    ecdsa-sha2-nistp256 ecdsa-sha2-nistp384 ecdsa-sha2-nistp521""".split()
)


class CertificateError(CatenaError):
    """A certificate is not valid for a host; the text says why."""


@dataclass(frozen=True)
class Certificate:
    """The unchecked contents of a certificate."""

    kind: int
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    critical: bytes
    #: The authority's public key, and its signature over `signed`.
    authority: bytes
    signature: bytes
    signed: bytes


def parse(blob: bytes) -> Certificate:
    """Return the certificate in *blob*.

    Raises:
        CertificateError: the blob is no certificate.
    """
    if len(blob) > SIZE_LIMIT:
        raise CertificateError(f"a certificate of {len(blob)} bytes, limit {SIZE_LIMIT}")
    reader = _Reader(blob)
    try:
        name = reader.text()
        if not name.endswith(SUFFIX):
            raise CertificateError(f"{name[:40]!r} is no kind of certificate")
        reader.string()  # nonce
        for _ in range(_KEY_FIELDS.get(name.removesuffix(SUFFIX), _ECDSA_FIELDS)):
            reader.string()
        reader.number(8)  # serial
        kind, key_id = reader.number(4), reader.text()
        names = _Reader(reader.string())
        principals = []
        while names.left:
            principals.append(names.text())
        after, before = reader.number(8), reader.number(8)
        critical = reader.string()
        reader.string()  # extensions
        reader.string()  # reserved
        authority = reader.string()
        signed = blob[: reader.at]
        signature = reader.string()
    except (struct.error, UnicodeDecodeError):
        raise CertificateError("it is cut short, or no certificate") from None
    return Certificate(
        kind,
        key_id,
        tuple(principals),
        after,
        before,
        critical,
        authority,
        signature,
        signed,
    )


def check(certificate: Certificate, host: str, authorities: Sequence[bytes]) -> None:
    """Check that an authority has certified *host* with *certificate*, valid now.

    Args:
        certificate: what the host has shown.
        host: its name, without a port.
        authorities: public keys of the authorities for this host.

    Raises:
        CertificateError: the certificate is not valid; the text says why.
    """
    if certificate.kind != _HOST:
        raise CertificateError("it is a user's certificate, not a host's")
    if certificate.authority not in authorities:
        raise CertificateError("its authority is not one for this host")
    if not any(fnmatchcase(host.lower(), name.lower()) for name in certificate.principals):
        names = ", ".join(certificate.principals) or "nobody"
        raise CertificateError(f"it is for {names}, not for {host}")
    now = int(time.time())
    if not certificate.valid_after <= now < certificate.valid_before:
        raise CertificateError("it is not valid now: it has expired, or a clock is wrong")
    if certificate.critical:
        raise CertificateError("it has critical options, which are not known")
    if not _is_signed(certificate):
        raise CertificateError("its signature is wrong")


def _is_signed(certificate: Certificate) -> bool:
    paramiko = library.paramiko()

    try:
        kind = _Reader(certificate.authority).text()
        reader = _Reader(certificate.signature)
        algorithm, _ = reader.text(), reader.string()
        if algorithm not in _SIGNATURES or reader.left:
            return False
        key = paramiko.PKey.from_type_string(kind, certificate.authority)
        return bool(
            key.verify_ssh_sig(certificate.signed, paramiko.Message(certificate.signature))
        )
    except (paramiko.SSHException, paramiko.UnknownKeyType, ValueError, struct.error):
        # UnicodeDecodeError is a ValueError too.
        return False


class _Reader:
    """Reads SSH's strings and numbers (RFC 4251, 5)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def number(self, size: int) -> int:
        if self.left < size:
            raise struct.error("cut short")
        self.at += size
        return int.from_bytes(self._data[self.at - size : self.at], "big")

    def string(self) -> bytes:
        size = self.number(4)
        if self.left < size:
            raise struct.error("cut short")
        self.at += size
        return self._data[self.at - size : self.at]

    def text(self) -> str:
        return self.string().decode("utf-8")

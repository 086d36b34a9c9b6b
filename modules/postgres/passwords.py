"""Passwords of roles as PostgreSQL stores them: MD5, and SCRAM-SHA-256 (RFC 5803, RFC 7677)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import stringprep
import unicodedata
from typing import Any, Optional

from catena.core.errors import UsageError
from catena.core.frozen import dataclass

MD5 = "md5"
SCRAM = "scram-sha-256"
#: Iterations of a new SCRAM verifier, as PostgreSQL's default.
_ITERATIONS = 4096
#: Maximum iterations of a stored verifier that is checked.
_MOST_ITERATIONS = 2_000_000
_MD5 = re.compile(r"md5[0-9a-f]{32}\Z")
_SCRAM = re.compile(
    r"SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)\Z"
)
#: Characters that RFC 4013 prohibits.
_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


@dataclass(frozen=True)
class _Scram:
    """A stored verifier."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


def method_of(encrypted: Any) -> str:
    """Return "md5" or "scram-sha-256"; "" stands for the server's own method.

    Raises:
        UsageError: *encrypted* is neither, nor yes or no.
    """
    if encrypted is None or isinstance(encrypted, bool):
        return ""
    text = str(encrypted).strip().lower()
    if text in (MD5, SCRAM):
        return text
    if text in ("true", "yes", "on", "false", "no", "off", ""):
        return ""
    raise UsageError(f"encrypted: {text[:40]!r} is no method; use {SCRAM} or {MD5}")


def is_hashed(password: str) -> bool:
    """Return whether *password* is a stored form rather than plain text."""
    return bool(_MD5.match(password) or _SCRAM.match(password))


def hashed(role: str, password: str, method: str) -> str:
    """Return the stored form of *password*; a stored form is returned unchanged."""
    if is_hashed(password):
        return password
    if method == MD5:
        return _md5(role, password)
    salt = os.urandom(16)
    made = _scram(password, salt, _ITERATIONS)
    keys = f"{_b64(made.stored_key)}:{_b64(made.server_key)}"
    return f"SCRAM-SHA-256${_ITERATIONS}:{_b64(salt)}${keys}"


def matches(role: str, password: str, stored: str, method: str = "") -> bool:
    """Return whether *stored* is a form of *password*, of *method* if one is given."""
    if is_hashed(password):
        return hmac.compare_digest(password.encode(), stored.encode())
    if _MD5.match(stored):
        return method != SCRAM and hmac.compare_digest(_md5(role, password), stored)
    found = _parse(stored)
    if found is None or method == MD5:
        return False
    made = _scram(password, found.salt, found.iterations)
    return hmac.compare_digest(made.stored_key, found.stored_key) and hmac.compare_digest(
        made.server_key, found.server_key
    )


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _md5(role: str, password: str) -> str:
    digest = hashlib.md5((password + role).encode("utf-8"), usedforsecurity=False)
    return f"md5{digest.hexdigest()}"


def _parse(stored: str) -> Optional[_Scram]:
    match = _SCRAM.match(stored)
    if match is None or not 0 < int(match.group(1)) <= _MOST_ITERATIONS:
        return None
    try:
        salt, stored_key, server_key = (
            base64.b64decode(part, validate=True) for part in match.groups()[1:]
        )
    except binascii.Error:
        return None
    return _Scram(int(match.group(1)), salt, stored_key, server_key)


def _scram(password: str, salt: bytes, iterations: int) -> _Scram:
    salted = hashlib.pbkdf2_hmac("sha256", _prepared(password), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    return _Scram(iterations, salt, stored_key, hmac.digest(salted, b"Server Key", "sha256"))


def _prepared(password: str) -> bytes:
    """Return the bytes that SCRAM hashes: SASLprep of the password (RFC 4013).

    PostgreSQL hashes a password that SASLprep prohibits as it is.
    """
    if password.isascii():
        return password.encode("ascii")
    mapped = "".join(
        " " if stringprep.in_table_c12(one) else one
        for one in password
        if not stringprep.in_table_b1(one)
    )
    text = unicodedata.normalize("NFKC", mapped)
    if not text or any(check(one) for one in text for check in _PROHIBITED) or _is_mixed(text):
        return password.encode("utf-8")
    return text.encode("utf-8")


def _is_mixed(text: str) -> bool:
    """Return whether a text violates the rule of bidirectional text (RFC 3454, section 6)."""
    if not any(stringprep.in_table_d1(one) for one in text):
        return False
    if any(stringprep.in_table_d2(one) for one in text):
        return True
    return not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1]))

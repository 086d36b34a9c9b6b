"""hashutil.*: digests and base64 of text."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.file.source import hash_file

Text = Union[str, bytes]


def _bytes(text: Text) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("utf-8")


@function(inline=True)
def digest(context: Context, instr: Text, checksum: str = "md5") -> str:
    """Return the hex digest of a text.

    Raises:
        UsageError: no hash is called *checksum*.
    """
    if checksum not in hashlib.algorithms_available:
        raise UsageError(f"no hash is called {checksum!r}")
    return hashlib.new(checksum, _bytes(instr)).hexdigest()


@function(reads=True)
def digest_file(context: Context, infile: str, checksum: str = "md5") -> str:
    """Return the hex digest of a file."""
    path = Path(infile)
    if not path.is_file():
        raise CommandExecutionError(f"File path '{infile}' not found.")
    return hash_file(path, checksum)


@function(inline=True)
def sha256_digest(context: Context, instr: Text) -> str:
    """Return the SHA-256 of a text, hex."""
    return digest(context, instr, "sha256")


@function(inline=True)
def sha512_digest(context: Context, instr: Text) -> str:
    """Return the SHA-512 of a text, hex."""
    return digest(context, instr, "sha512")


@function(inline=True)
def md5_digest(context: Context, instr: Text) -> str:
    """Return the MD5 of a text, hex."""
    return digest(context, instr, "md5")


@function(inline=True)
def base64_b64encode(context: Context, instr: Text) -> str:
    """Return a text in base64 on one line."""
    return base64.b64encode(_bytes(instr)).decode("ascii")


@function(inline=True)
def base64_b64decode(context: Context, instr: Text) -> Text:
    """Return the text that base64 holds; bytes where it is no UTF-8."""
    found = _decoded(instr)
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        return found


def _decoded(text: Text) -> bytes:
    try:
        return base64.b64decode(_bytes(text), validate=False)
    except ValueError as problem:
        raise UsageError(f"this is not base64: {problem}") from problem


@function(inline=True)
def base64_encodestring(context: Context, instr: Text) -> str:
    """Return a text in base64 with a newline every 76 characters."""
    return base64.encodebytes(_bytes(instr)).decode("ascii")


@function(inline=True)
def base64_decodestring(context: Context, instr: Text) -> Text:
    """Return the text that base64 holds; bytes where it is no UTF-8."""
    return base64_b64decode(context, instr)


@function(reads=True)
def base64_encodefile(context: Context, fname: str) -> str:
    """Return a file in base64."""
    try:
        return base64.encodebytes(Path(fname).read_bytes()).decode("ascii")
    except OSError as problem:
        raise CommandExecutionError(f"{fname}: {problem.strerror}") from problem


@function(inline=True)
def hmac_signature(
    context: Context, string: Text, shared_secret: Text, challenge_hmac: str
) -> bool:
    """Return whether *challenge_hmac* is the base64 HMAC-SHA-256 of a text."""
    made = hmac.new(_bytes(shared_secret), _bytes(string), hashlib.sha256).digest()
    return hmac.compare_digest(base64.b64encode(made), _bytes(challenge_hmac))


@function(inline=True)
def hmac_compute(context: Context, string: Text, shared_secret: Text) -> str:
    """Return the HMAC-SHA-256 of a text, hex."""
    return hmac.new(_bytes(shared_secret), _bytes(string), hashlib.sha256).hexdigest()


@function(inline=True)
def github_signature(
    context: Context, string: Text, shared_secret: Text, challenge_hmac: str
) -> bool:
    """Return whether *challenge_hmac* (KIND=HEX) is the HMAC of a text, as GitHub sends it.

    Raises:
        UsageError: no hash is called so.
    """
    kind, _, challenge = str(challenge_hmac).partition("=")
    if kind not in hashlib.algorithms_available:
        raise UsageError(f"no hash is called {kind!r}")
    made = hmac.new(_bytes(shared_secret), _bytes(string), kind).hexdigest()
    return hmac.compare_digest(made.encode("ascii"), challenge.encode("utf-8"))


@function()
def base64_decodefile(context: Context, instr: Text, outfile: str) -> bool:
    """Decode base64 into a file; a new file is readable only by its owner. Return True."""
    from catena.modules.file.content import write

    write(Path(outfile), _decoded(instr))
    return True

"""random.*: secrets and random numbers."""

from __future__ import annotations

import hashlib
import random as chance
import secrets
import string
from typing import Any, List, Optional

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function

_LONGEST = 1_000_000


@function(inline=True)
def get_str(
    context: Context,
    length: int = 20,
    chars: Optional[str] = None,
    lowercase: bool = True,
    uppercase: bool = True,
    digits: bool = True,
    punctuation: bool = True,
    whitespace: bool = False,
) -> str:
    """Return *length* random characters from *chars*, or from the chosen classes."""
    kinds = (
        (lowercase, string.ascii_lowercase),
        (uppercase, string.ascii_uppercase),
        (digits, string.digits),
        (punctuation, string.punctuation),
        (whitespace, " \t"),
    )
    alphabet = chars or "".join(text for wanted, text in kinds if wanted)
    if not alphabet or not 0 < int(length) <= _LONGEST:
        raise UsageError(f"random.get_str needs characters and a length up to {_LONGEST}")
    return "".join(secrets.choice(alphabet) for _ in range(int(length)))


@function(inline=True)
def rand_int(context: Context, start: int = 1, end: int = 10, seed: Any = None) -> int:
    """Return a number from *start* to *end*; the same each time for one *seed*."""
    return chance.Random(seed).randint(int(start), int(end))


@function(inline=True)
def seed(context: Context, range: int = 10, hash: Optional[str] = None) -> int:
    """Return a number from 0 to *range*-1 that *hash* (the minion's id) always gives."""
    text = str(hash or context.grains.get("id", context.opts.get("id", "")))
    # Salt's algorithm, so that values in existing trees (such as cron minutes) stay the same.
    return chance.Random(text).randrange(int(range))


@function(inline=True)
def sample(context: Context, value: List[Any], size: int, seed: Any = None) -> List[Any]:
    """Return *size* random members of a list; the same ones for the same *seed*."""
    return _chance(seed).sample(list(value), int(size))


def _chance(seed: Any) -> chance.Random:
    """Return a generator that draws for *seed* what Salt's draws."""
    if seed is None:
        return chance.Random()
    return chance.Random(hashlib.sha512(str(seed).encode()).hexdigest())


@function(inline=True)
def shuffle(context: Context, value: List[Any], seed: Any = None) -> List[Any]:
    """Return the members of a list in another order; the same each time for one *seed*."""
    return _chance(seed).sample(list(value), len(value))


@function(name="hash", inline=True)
def hash_(context: Context, value: str, algorithm: str = "sha512") -> str:
    """Return the hex digest of a text."""
    if algorithm not in hashlib.algorithms_available:
        raise UsageError(f"no hash is called {algorithm!r}")
    return hashlib.new(algorithm, str(value).encode()).hexdigest()


@function(inline=True)
def str_encode(context: Context, value: str, encoder: str = "base64") -> str:
    """Return a text in base64 or hex."""
    import base64

    if encoder == "base64":
        return base64.b64encode(str(value).encode()).decode("ascii")
    if encoder == "hex":
        return str(value).encode().hex()
    raise UsageError(f"encoder: {encoder!r} is neither base64 nor hex")


@function(reads=True)
def shadow_hash(
    context: Context,
    crypt_salt: Optional[str] = None,
    password: Optional[str] = None,
    algorithm: str = "sha512",
) -> str:
    """Return the hash of a password for /etc/shadow; of a random one where none is given."""
    from catena.modules.shared.crypted import crypted

    return crypted(context, password or secrets.token_urlsafe(15), crypt_salt, algorithm)

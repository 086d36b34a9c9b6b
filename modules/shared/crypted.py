"""Password hashes in the formats of crypt(3)."""

from __future__ import annotations

import secrets
import string
from typing import Optional

from catena.core.context import Context
from catena.core.dry_run import only_looking
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.suggest import unknown
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run

#: By algorithm: its identifier in the hash.
_KINDS = {"sha512": "6", "sha256": "5", "md5": "1"}
_SALT = string.ascii_letters + string.digits + "./"


def crypted(
    context: Context, password: str, salt: Optional[str] = None, algorithm: str = "sha512"
) -> str:
    """Return the hash of *password*; openssl makes it, and reads it from its standard input.

    Args:
        context: the call's context.
        password: one line.
        salt: at most 16 letters, digits, dots and slashes; random by default.
        algorithm: sha512, sha256 or md5.

    Raises:
        UsageError: no such algorithm, or a salt or password that can't be.
        CommandExecutionError: there is no openssl here.
    """
    if algorithm not in _KINDS:
        raise UsageError(unknown("algorithm", algorithm, _KINDS))
    chosen = salt or "".join(secrets.choice(_SALT) for _ in range(8))
    if not 0 < len(chosen) <= 16 or set(chosen) - set(_SALT):
        raise UsageError("the salt of a password is 1 to 16 letters, digits, dots and slashes")
    if "\n" in password or "\0" in password:
        raise UsageError("a password is one line")
    words = ["openssl", "passwd", f"-{_KINDS[algorithm]}", "-salt", chosen, "-stdin"]
    options = RunOptions(python_shell=False, stdin=f"{password}\n")
    with only_looking():
        ran = run(context, words, options)
    if ran.retcode or not ran.stdout.startswith("$"):
        raise CommandExecutionError(f"openssl passwd: {ran.stderr or ran.stdout}")
    return ran.stdout.strip()

"""shadow.*: passwords and their ageing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from catena.modules.shared import accounts
from catena.modules.shared.accounts import checked_field, checked_name
from catena.modules.shared.crypted import crypted

_FIELDS = ("name", "passwd", "lstchg", "min", "max", "warn", "inact", "expire")


def parse_line(line: str) -> Dict[str, Any]:
    """Return the fields of one line of shadow; an empty number is -1."""
    parts = [*line.rstrip("\n").split(":"), *[""] * 8][:8]
    found: Dict[str, Any] = dict(zip(_FIELDS, parts))
    for name in _FIELDS[2:]:
        found[name] = int(found[name]) if found[name].lstrip("-").isdigit() else -1
    return found


def _lines(root: Optional[str]) -> List[str]:
    path = Path(root or "/", "etc/shadow")
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem


@function(reads=True)
def info(context: Context, name: str, root: Optional[str] = None) -> Dict[str, Any]:
    """Return name, passwd, lstchg, min, max, warn, inact and expire of a user.

    Raises:
        CommandExecutionError: only root may read it.
    """
    for line in _lines(root):
        if line.partition(":")[0] == str(name):
            return parse_line(line)
    return dict.fromkeys(_FIELDS, "")


@function(reads=True)
def list_users(context: Context, root: Optional[str] = None) -> List[str]:
    """Return the users that have an entry, sorted.

    Raises:
        CommandExecutionError: only root may read it.
    """
    return sorted(line.partition(":")[0] for line in _lines(root) if ":" in line)


@function(inline=True)
def default_hash(context: Context) -> str:
    """Return the hash value that matches no password."""
    return "!"


@function(reads=True)
def gen_password(
    context: Context, password: str, crypt_salt: Optional[str] = None, algorithm: str = "sha512"
) -> str:
    """Return the hash of a password for /etc/shadow.

    Args:
        context: the call's context.
        password: the password.
        crypt_salt: salt; a random one by default.
        algorithm: sha512, sha256 or md5.

    Raises:
        UsageError: no such algorithm.
        CommandExecutionError: neither this Python nor openssl can make it.
    """
    return crypted(context, password, crypt_salt, algorithm)


@function()
def set_password(
    context: Context,
    name: str,
    password: str,
    use_usermod: bool = False,
    root: Optional[str] = None,
) -> bool:
    """Set the password hash of a user, passed by standard input; return True."""
    line = f"{checked_name(name)}:{checked_field(password)}\n"
    accounts.act(context, ["chpasswd", "-e"], root, stdin=line)
    return True


@function()
def del_password(context: Context, name: str, root: Optional[str] = None) -> bool:
    """Remove the password of a user, so that none is required; return True."""
    accounts.act(context, ["passwd", "-d", checked_name(name)], root)
    return True


@function()
def lock_password(context: Context, name: str, root: Optional[str] = None) -> bool:
    """Lock the password of a user; return True."""
    accounts.act(context, ["usermod", "-L", checked_name(name)], root)
    return True


@function()
def unlock_password(context: Context, name: str, root: Optional[str] = None) -> bool:
    """Unlock the password of a user; return True."""
    accounts.act(context, ["usermod", "-U", checked_name(name)], root)
    return True


def _chage(context: Context, name: str, flag: str, value: Any, root: Optional[str]) -> bool:
    words = ["chage", flag, checked_field(value), checked_name(name)]
    accounts.act(context, words, root)
    return True


@function()
def set_date(context: Context, name: str, date: Any, root: Optional[str] = None) -> bool:
    """Set when the password was last changed (days since 1970, or YYYY-MM-DD); return True."""
    return _chage(context, name, "-d", date, root)


@function()
def set_expire(context: Context, name: str, expire: Any, root: Optional[str] = None) -> bool:
    """Set when the account expires (days since 1970, YYYY-MM-DD, -1 for never); return True."""
    return _chage(context, name, "-E", expire, root)


@function()
def set_inactdays(context: Context, name: str, inactdays: int, root: Optional[str] = None) -> bool:
    """Set for how many days an expired password still allows a login; return True."""
    return _chage(context, name, "-I", inactdays, root)


@function()
def set_maxdays(context: Context, name: str, maxdays: int, root: Optional[str] = None) -> bool:
    """Set after how many days a password must be changed; return True."""
    return _chage(context, name, "-M", maxdays, root)


@function()
def set_mindays(context: Context, name: str, mindays: int, root: Optional[str] = None) -> bool:
    """Set after how many days a password may be changed; return True."""
    return _chage(context, name, "-m", mindays, root)


@function()
def set_warndays(context: Context, name: str, warndays: int, root: Optional[str] = None) -> bool:
    """Set how many days before its expiry a user is warned; return True."""
    return _chage(context, name, "-W", warndays, root)

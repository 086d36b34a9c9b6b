"""Owner, group and mode: parse values of SLS files, compare and apply them."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass

KEEP = "keep"
#: Mode of a file that only its owner may read.
PRIVATE = "0600"


@dataclass(frozen=True)
class Wanted:
    """The wanted attributes of a path; None leaves one unchanged."""

    user: Any = None
    group: Any = None
    #: Permission bits, "0644".
    mode: Optional[str] = None


def parse_mode(value: Any) -> Optional[str]:
    """Return a mode as four octal digits ("0644"); None, "" and "keep" stay.

    As in Salt, YAML reads 0644 as the number 644, so the digits are octal.

    Raises:
        UsageError: it is not an octal mode.
    """
    if value is None or value == "":
        return None
    text = str(value).strip().strip("'\"")
    if text == KEEP:
        return KEEP
    digits = text[2:] if text.lower().startswith("0o") else text
    try:
        number = int(digits, 8)
    except ValueError:
        number = -1
    if not 0 <= number <= 0o7777:
        raise UsageError(f"Invalid mode {text!r}: a mode is octal, such as '0644'")
    return f"{number:04o}"


def mode_of(path: Path, follow: bool = True) -> str:
    """Return the permission bits of *path* as four octal digits."""
    found = path.stat() if follow else path.lstat()
    return f"{stat.S_IMODE(found.st_mode):04o}"


def default_mode(folder: bool = False) -> str:
    """Return the mode that a new file or folder gets from this process's umask."""
    mask = os.umask(0o022)
    os.umask(mask)
    return f"{(0o777 if folder else 0o666) & ~mask:04o}"


def uid_of(user: Any) -> int:
    """Return the number of a user given by name or number.

    Raises:
        CommandExecutionError: there is no such user.
    """
    if isinstance(user, int) or str(user).isdigit():
        return int(user)
    try:
        return pwd.getpwnam(str(user)).pw_uid
    except KeyError:
        raise CommandExecutionError(f"User {user} is not available") from None


def gid_of(group: Any) -> int:
    """Return the number of a group given by name or number.

    Raises:
        CommandExecutionError: there is no such group.
    """
    if isinstance(group, int) or str(group).isdigit():
        return int(group)
    try:
        return grp.getgrnam(str(group)).gr_gid
    except KeyError:
        raise CommandExecutionError(f"Group {group} is not available") from None


def primary_group(user: Any) -> Optional[str]:
    """Return the name of the group that *user*'s files belong to by default; None for no user."""
    if user in (None, ""):
        return None
    try:
        return group_name(pwd.getpwuid(uid_of(user)).pw_gid)
    except (CommandExecutionError, KeyError):
        return None


def user_name(uid: int) -> str:
    """Return the name of user *uid*, or the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Return the name of group *gid*, or the number where it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def missing_account(wanted: Wanted) -> str:
    """Return an error that names a missing user and group; "" if both exist."""
    problems = []
    for given, find, end in ((wanted.user, uid_of, " "), (wanted.group, gid_of, "")):
        try:
            if given not in (None, ""):
                find(given)
        except CommandExecutionError as problem:
            problems.append(f"{problem}{end}")
    return "".join(problems)


def _differs(given: Any, found: int, find: Callable[[Any], int]) -> bool:
    """Return whether an owner is another; one that is still to be added by a state counts so."""
    if given in (None, ""):
        return False
    try:
        return find(given) != found
    except CommandExecutionError:
        return True


def differences(path: Path, wanted: Wanted, follow: bool = True) -> Dict[str, Any]:
    """Return the wanted values that differ from those of *path*: {"user", "group", "mode"}.

    Raises:
        OSError: the path does not exist.
    """
    found = path.stat() if follow else path.lstat()
    changes: Dict[str, Any] = {}
    if _differs(wanted.user, found.st_uid, uid_of):
        changes["user"] = wanted.user
    if _differs(wanted.group, found.st_gid, gid_of):
        changes["group"] = wanted.group
    mode = wanted.mode
    if mode and mode != KEEP and not stat.S_ISLNK(found.st_mode):
        if stat.S_IMODE(found.st_mode) != int(mode, 8):
            changes["mode"] = mode
    return changes


def apply(path: Path, wanted: Wanted, follow: bool = True) -> Dict[str, Any]:
    """Apply *wanted* to *path*; return the changed values as `differences` does.

    The owner is set first, because that clears set-id bits.

    Raises:
        CommandExecutionError: no such user or group, or no permission.
    """
    changes = differences(path, wanted, follow)
    uid = uid_of(wanted.user) if "user" in changes else -1
    gid = gid_of(wanted.group) if "group" in changes else -1
    try:
        if (uid, gid) != (-1, -1):
            os.chown(path, uid, gid, follow_symlinks=follow)
        # Set the mode again after a change of the owner, which clears set-id bits.
        mode = wanted.mode
        if mode and mode != KEEP and changes and not (path.is_symlink() and not follow):
            path.chmod(int(mode, 8))
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem
    return changes

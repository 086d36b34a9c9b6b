"""Owner, group and mode: parsed from what SLS files say, compared, applied."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from catena.core.errors import CommandExecutionError, UsageError

KEEP = "keep"


@dataclass(frozen=True)
class Wanted:
    """What a path should have; None leaves it as it is."""

    user: Any = None
    group: Any = None
    #: Permission bits, "0644".
    mode: Optional[str] = None


def parse_mode(value: Any) -> Optional[str]:
    """Return a mode as four octal digits ("0644"); None, "" and "keep" stay.

    YAML reads 0644 as the number 644 (Salt's loader drops the zero), so digits mean octal.

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
    """Return a sentence that names the user or group that does not exist; "" when both do."""
    try:
        if wanted.user not in (None, ""):
            uid_of(wanted.user)
        if wanted.group not in (None, ""):
            gid_of(wanted.group)
    except CommandExecutionError as problem:
        return str(problem)
    return ""


def _owner_ids(found: os.stat_result, wanted: Wanted) -> Tuple[int, int]:
    """Return the (uid, gid) that should be set; -1 where nothing is to be done."""
    uid = gid = -1
    if wanted.user not in (None, ""):
        uid = uid_of(wanted.user)
    if wanted.group not in (None, ""):
        gid = gid_of(wanted.group)
    return (
        uid if uid != found.st_uid else -1,
        gid if gid != found.st_gid else -1,
    )


def differences(path: Path, wanted: Wanted, follow: bool = True) -> Dict[str, Any]:
    """Return what *path* lacks of *wanted*: {"user", "group", "mode"}, each only when different.

    Raises:
        CommandExecutionError: no such user or group.
        OSError: the path is not there.
    """
    found = path.stat() if follow else path.lstat()
    uid, gid = _owner_ids(found, wanted)
    changes: Dict[str, Any] = {}
    if uid != -1:
        changes["user"] = wanted.user
    if gid != -1:
        changes["group"] = wanted.group
    mode = wanted.mode
    if mode and mode != KEEP and not stat.S_ISLNK(found.st_mode):
        if stat.S_IMODE(found.st_mode) != int(mode, 8):
            changes["mode"] = mode
    return changes


def apply(path: Path, wanted: Wanted, follow: bool = True) -> Dict[str, Any]:
    """Give *path* what it lacks of *wanted*; return what was changed, as `differences` does.

    The owner first: changing it clears set-id bits.

    Raises:
        CommandExecutionError: no such user or group, or no permission.
    """
    changes = differences(path, wanted, follow)
    if not changes:
        return changes
    found = path.stat() if follow else path.lstat()
    uid, gid = _owner_ids(found, wanted)
    try:
        if (uid, gid) != (-1, -1):
            os.chown(path, uid, gid, follow_symlinks=follow)
        mode = wanted.mode
        if mode and mode != KEEP and not stat.S_ISLNK(found.st_mode):
            path.chmod(int(mode, 8))
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem
    return changes

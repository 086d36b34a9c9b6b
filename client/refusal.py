"""Explains why this user cannot open the master's socket."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path


def why_refused(socket: Path) -> str:
    """Return why the socket's folder cannot be entered, and what root can do about it."""
    user = _user_name()
    group = _group_of(socket.parent)
    start = f"{user} may not use the master behind {socket}: "
    if not group:
        return (
            f"{start}it is open to root and the master's user only; to change that, root adds "
            f"{user} to `cli_users` in the master's configuration and makes the group that "
            "`cli_group` names (catena); `catena doctor master`, as root, says what is missing"
        )
    if user in grp.getgrnam(group).gr_mem:
        return f"{start}{user} has become a member of the group {group}: log in again"
    return (
        f"{start}root adds {user} to `cli_users` in the master's configuration and to the group "
        f"{group} (usermod -aG {group} {user}); log in again then"
    )


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def _group_of(folder: Path) -> str:
    """Return the group that may enter the folder of a socket, or ""."""
    try:
        found = folder.stat()
        named = grp.getgrgid(found.st_gid).gr_name
    except (OSError, KeyError):
        return ""
    return named if found.st_mode & 0o010 and found.st_gid else ""

"""Access of the users in `cli_users` to the master's socket, through a group of the host."""

from __future__ import annotations

import grp
import logging
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from catena.core.checkup import Finding, Level
from catena.core.config.master import MasterSettings
from catena.transport.local import SOCKET_MODE_GROUP

LOG = logging.getLogger(__name__)
_PART = "cli_users"


def socket_group(settings: MasterSettings) -> int | None:
    """Return the group that may open the socket; None if only the master's user may."""
    if not settings.cli_users:
        return None
    try:
        gid = grp.getgrnam(settings.cli_group).gr_gid
    except KeyError:
        LOG.warning("cli_users can't connect: %s", _no_group(settings.cli_group))
        return None
    if os.geteuid() != 0 and gid not in (os.getegid(), *os.getgroups()):
        LOG.warning("cli_users can't connect: %s", _no_member(settings))
        return None
    return gid


def findings(settings: MasterSettings) -> Iterator[Finding]:
    """Yield why users of `cli_users` cannot use the command on this host."""
    if not settings.cli_users:
        return
    try:
        group = grp.getgrnam(settings.cli_group)
    except KeyError:
        missing, cure = _no_group(settings.cli_group).split(": ", 1)
        yield Finding(_PART, Level.warning, missing, cure)
        return
    found = [finding for user in settings.cli_users for finding in _user(user, group)]
    yield from found
    yield from _socket(Path(settings.run_dir) / "master.sock", group)
    if not found:
        names = ", ".join(settings.cli_users)
        yield Finding(_PART, Level.ok, f"{names}: members of the group {settings.cli_group}")


def _user(user: str, group: grp.struct_group) -> Iterator[Finding]:
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        yield Finding(_PART, Level.warning, f"this host has no user {user!r}")
        return
    if entry.pw_uid and user not in group.gr_mem and entry.pw_gid != group.gr_gid:
        cure = f"usermod -aG {group.gr_name} {user}; {user} logs in again then"
        text = f"{user} is not a member of the group {group.gr_name}"
        yield Finding(_PART, Level.warning, text, cure)


def _socket(path: Path, group: grp.struct_group) -> Iterator[Finding]:
    try:
        found = path.lstat()
    except OSError:
        # The master does not run.
        return
    if found.st_gid != group.gr_gid or stat.S_IMODE(found.st_mode) != SOCKET_MODE_GROUP:
        text = f"{path} is not open to the group {group.gr_name}"
        yield Finding(_PART, Level.warning, text, "restart the master")
    for folder in path.parent.parents:
        mode = folder.stat()
        if not (mode.st_mode & 0o001 or (mode.st_gid == group.gr_gid and mode.st_mode & 0o010)):
            text = f"the group {group.gr_name} can't pass {folder}"
            yield Finding(
                _PART, Level.warning, text, f"chmod o+x {folder}, or set another run_dir"
            )


def _no_group(name: str) -> str:
    cure = f"groupadd --system {name}, usermod -aG {name} USER for each, restart the master"
    return f"this host has no group {name!r} (setting cli_group): {cure}"


def _no_member(settings: MasterSettings) -> str:
    user = settings.user
    cure = f"usermod -aG {settings.cli_group} {user}, restart the master"
    return f"the master's user {user} is not a member of the group {settings.cli_group}: {cure}"

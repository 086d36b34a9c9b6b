"""Privileges that a daemon drops at its start: root, and files that others may read."""

from __future__ import annotations

import os
import pwd

from catena.core.errors import ConfigError

#: Umask of the daemons: group and others have no access to their files.
PRIVATE_UMASK = 0o077
#: Umask of jobs, as in Salt: others may read files made by cmd.run and states.
JOB_UMASK = 0o022


def keep_files_private() -> None:
    """Deny group and others access to files that this process and its children will create."""
    os.umask(PRIVATE_UMASK)


def become(user: str) -> None:
    """Switch from root to *user* (config `user`) and its groups; do nothing if not root.

    Raises:
        ConfigError: the user does not exist.
    """
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise ConfigError(f"user: this host has no user {user!r}") from None
    if os.geteuid() != 0 or entry.pw_uid == 0:
        return
    os.initgroups(user, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)

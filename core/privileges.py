"""What a daemon gives up at its start: root, and files that others may read."""

from __future__ import annotations

import os
import pwd

from catena.core.errors import ConfigError

#: Umask of the daemons, whoever started them: their files are closed to group and others.
PRIVATE_UMASK = 0o077
#: Umask of jobs, as in Salt: cmd.run and states make files that others may read.
JOB_UMASK = 0o022


def keep_files_private() -> None:
    """Deny group and others every file that this process and its children make from now on."""
    os.umask(PRIVATE_UMASK)


def become(user: str) -> None:
    """Give up root for *user* (config `user`), its groups too; nothing where this is not root.

    Raises:
        ConfigError: there is no such user.
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

"""Giving up root for the user that the configuration names."""

from __future__ import annotations

import os
import pwd

from catena.core.errors import ConfigError


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

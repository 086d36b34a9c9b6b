"""Compare the wanted options of a mount with those that the kernel shows.

The kernel shows neither defaults nor options that only mount(8) or systemd read, and it shows
sizes, modes and users in a form of its own. An option that differs only in that needs no remount.
"""

from __future__ import annotations

import re
from typing import Any, FrozenSet, Mapping, Optional, Sequence, Tuple

from catena.core.errors import UsageError
from catena.core.frozen import dataclass, field
from catena.modules.shared.arguments import listed, mapped
from catena.modules.shared.fstab import is_secret, options_of

#: Options that the kernel never shows, with or without a value.
_HIDDEN = frozenset(
    {
        *("_netdev", "auto", "noauto", "user", "users", "nouser", "group", "owner", "defaults"),
        *("nofail", "nobootwait", "comment", "loop", "offset", "sizelimit", "uhelper", "helper"),
        *("bind", "rbind", "remount", "silent", "loud", "bg", "fg", "intr", "nointr", "retry"),
        *("actimeo", "soft", "port", "delay_connect", "direct-io-mode", "reconnect", "nonempty"),
        *("transform_symlinks", "backup-volfile-servers", "credentials", "secretfile"),
        *("password", "pass", "password2"),
    }
)
#: Beginnings of names of options for systemd and other programs.
_PREFIXES = ("x-", "X-", "x.", "X.")
#: Options that the kernel shows by not showing their opposite.
_OPPOSITES = {
    "rw": "ro",
    "exec": "noexec",
    "suid": "nosuid",
    "dev": "nodev",
    "async": "sync",
    "atime": "noatime",
    "diratime": "nodiratime",
    "norelatime": "relatime",
    "nolazytime": "lazytime",
    "nomand": "mand",
    "symfollow": "nosymfollow",
    "nodiscard": "discard",
    "barrier": "nobarrier",
    "delalloc": "nodelalloc",
}
#: Defaults that a type of file system does not show.
_DEFAULTS: Mapping[str, FrozenSet[str]] = {
    "ext": frozenset(
        {
            *("acl", "user_xattr", "barrier=1", "data=ordered", "errors=continue"),
            *("init_itable", "block_validity", "commit=5"),
        }
    ),
    "xfs": frozenset({"attr2", "inode64", "noquota"}),
    "tmpfs": frozenset({"mode=1777", "uid=0", "gid=0", "huge=never"}),
    "ramfs": frozenset({"mode=1777"}),
}
#: Options of a type of file system that may differ from what was asked for.
_FREE: Mapping[str, FrozenSet[str]] = {"ramfs": frozenset({"size"})}
_TRANSLATED = {
    "tcp": "proto=tcp",
    "udp": "proto=udp",
    "uquota": "usrquota",
    "gquota": "grpquota",
    "pquota": "prjquota",
}
_SIZE = re.compile(r"(size|nr_inodes|nr_blocks|rsize|wsize)=(\d+)([kmgKMG]?)\Z")
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_MODE = re.compile(r"(mode|umask|fmask|dmask|file_mode|dir_mode)=0*([0-7]+)\Z")


@dataclass(frozen=True)
class Rules:
    """What the arguments of mount.mounted add to the rules above."""

    hidden: FrozenSet[str] = frozenset()
    hidden_keys: FrozenSet[str] = frozenset()
    free: Mapping[str, FrozenSet[str]] = field(default_factory=dict)
    translated: Mapping[str, str] = field(default_factory=dict)


def rules_of(
    invisible: Any = None,
    keys: Any = None,
    ignored: Any = None,
    translated: Any = None,
    hidden: Any = None,
) -> Rules:
    """Return the rules for the arguments of mount.mounted.

    Args:
        invisible: options that the kernel does not show.
        keys: names of options with a value that the kernel does not show.
        ignored: {type of file system: names of options that may differ}.
        translated: {option: what the kernel shows for it}.
        hidden: options that cause no remount.

    Raises:
        UsageError: an argument has the wrong type.
    """
    try:
        free = {str(kind): frozenset(options_of(one)) for kind, one in mapped(ignored).items()}
        pairs = {str(key): str(value) for key, value in mapped(translated).items()}
    except UsageError as problem:
        raise UsageError(f"extra_mount_*: {problem}") from problem
    names = frozenset(map(str, [*listed(invisible), *listed(hidden)]))
    return Rules(names, frozenset(map(str, listed(keys))), free, pairs)


def differing(
    wanted: Sequence[str], seen: Sequence[str], superopts: Sequence[str], fstype: str, rules: Rules
) -> Tuple[str, ...]:
    """Return the wanted options that a mounted file system lacks.

    Args:
        wanted: options of the state.
        seen: those of the mount.
        superopts: those of its file system.
        fstype: its type.
        rules: what the state adds to the rules of this module.
    """
    there = {_plain(one, fstype) for one in (*seen, *superopts)}
    # Only the mount's own flag says whether it may be written through this mount point.
    there.discard("ro" if "ro" not in seen and "rw" in superopts else "")
    return tuple(
        one
        for one in wanted
        if not _is_hidden(one, fstype, rules)
        and not _is_there(_plain(rules.translated.get(one, one), fstype), there)
    )


def still_set(
    gone: Sequence[str], seen: Sequence[str], superopts: Sequence[str], fstype: str, rules: Rules
) -> Tuple[str, ...]:
    """Return the options in *gone* that are set and are no defaults; arguments as `differing`."""
    there = {*seen, *superopts}
    return tuple(
        one
        for one in gone
        if one in there
        and one not in _OPPOSITES
        and one != "relatime"
        and not _is_hidden(one, fstype, rules)
    )


def _is_hidden(option: str, fstype: str, rules: Rules) -> bool:
    key = option.partition("=")[0]
    kind = "ext" if fstype in ("ext2", "ext3", "ext4") else fstype
    free = rules.free.get(fstype, _FREE.get(kind, frozenset()))
    return (
        key in _HIDDEN
        or is_secret(option)
        or key.startswith(_PREFIXES)
        or option in rules.hidden
        or key in rules.hidden
        or key in rules.hidden_keys
        or key in free
        or option.endswith("%")
        or _plain(option, fstype) in _DEFAULTS.get(kind, frozenset())
    )


def _is_there(option: str, there: FrozenSet[str] | set[str]) -> bool:
    if option in _OPPOSITES:
        return _OPPOSITES[option] not in there
    if option == "strictatime":
        return not {"relatime", "noatime"} & set(there)
    if option.startswith(("vers=", "nfsvers=")):
        wanted = option.partition("=")[2]
        shown = [one.partition("=")[2] for one in there if one.startswith("vers=")]
        return any(one == wanted or one.startswith(f"{wanted}.") for one in shown)
    return option in there


def _plain(option: str, fstype: str) -> str:
    """Return an option in one form: sizes in bytes, modes without zeros, users as numbers."""
    option = _TRANSLATED.get(option, option)
    size = _SIZE.match(option)
    if size:
        return f"{size.group(1)}={int(size.group(2)) * _UNITS[size.group(3).lower()]}"
    mode = _MODE.match(option)
    if mode:
        return f"{mode.group(1)}={mode.group(2)}"
    key, mark, value = option.partition("=")
    if key in ("uid", "gid") and value and not value.isdigit():
        return f"{key}={_id_of(key, value)}"
    if fstype in ("cifs", "smb3") and key == "user" and mark:
        return f"username={value}"
    return option


def _id_of(key: str, name: str) -> str:
    """Return the number of a user or group; the name if there is none."""
    import grp
    import pwd

    found: Optional[int] = None
    try:
        found = pwd.getpwnam(name).pw_uid if key == "uid" else grp.getgrnam(name).gr_gid
    except KeyError:
        return name
    return str(found)

"""Read users and groups from the account files, and change them with tools.

Accounts are read with the system's name service or, with `root`, from the files below that folder.
shadow-utils makes changes. A password hash is passed by standard input, never as an argument.
"""

from __future__ import annotations

import grp
import pwd
import re
import shutil
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, field
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,254}\$?\Z")
_TOOL_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class User:
    """One line of passwd, with the user's groups."""

    name: str
    uid: int
    gid: int
    gecos: str
    home: str
    shell: str
    #: Names of all groups, including the primary one.
    groups: Tuple[str, ...] = ()

    def as_dict(self) -> Dict[str, Any]:
        """Return the value of user.info."""
        parts = [*self.gecos.split(",", 4), "", "", "", "", ""][:5]
        return {
            "name": self.name,
            "uid": self.uid,
            "gid": self.gid,
            "groups": sorted(self.groups),
            "home": self.home,
            "passwd": "x",
            "shell": self.shell,
            "fullname": parts[0],
            "roomnumber": parts[1],
            "workphone": parts[2],
            "homephone": parts[3],
            "other": parts[4],
        }


@dataclass(frozen=True)
class Group:
    """One line of the group file."""

    name: str
    gid: int
    members: Tuple[str, ...] = ()

    def as_dict(self) -> Dict[str, Any]:
        """Return the value of group.info."""
        return {
            "name": self.name,
            "gid": self.gid,
            "members": list(self.members),
            "passwd": "x",
        }


@dataclass(frozen=True)
class Accounts:
    """All users and groups."""

    users: Dict[str, User] = field(default_factory=dict)
    groups: Dict[str, Group] = field(default_factory=dict)

    def group_by_gid(self, gid: int) -> Optional[Group]:
        """Return the group with number *gid*, or None."""
        return next((one for one in self.groups.values() if one.gid == gid), None)


def parse_group(text: str) -> Dict[str, Group]:
    """Return the groups of a group file's text; malformed lines are left out."""
    found = {}
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) == 4 and parts[2].isdigit():
            members = tuple(name for name in parts[3].split(",") if name)
            found[parts[0]] = Group(parts[0], int(parts[2]), members)
    return found


def parse_passwd(text: str, groups: Dict[str, Group]) -> Dict[str, User]:
    """Return the users of a passwd file's text; malformed lines are left out."""
    found = {}
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) == 7 and parts[2].isdigit() and parts[3].isdigit():
            uid, gid = int(parts[2]), int(parts[3])
            names = _group_names(parts[0], gid, groups)
            found[parts[0]] = User(parts[0], uid, gid, parts[4], parts[5], parts[6], names)
    return found


def _group_names(user: str, gid: int, groups: Dict[str, Group]) -> Tuple[str, ...]:
    return tuple(
        sorted(one.name for one in groups.values() if one.gid == gid or user in one.members)
    )


def read(root: Optional[str] = None) -> Accounts:
    """Return all users and groups, of this host or of the files below *root*."""
    if root:
        etc = Path(root, "etc")
        groups = parse_group(_text(etc / "group"))
        return Accounts(parse_passwd(_text(etc / "passwd"), groups), groups)
    groups = {g.gr_name: Group(g.gr_name, g.gr_gid, tuple(g.gr_mem)) for g in grp.getgrall()}
    users = {}
    for one in pwd.getpwall():
        names = _group_names(one.pw_name, one.pw_gid, groups)
        users[one.pw_name] = User(
            one.pw_name, one.pw_uid, one.pw_gid, one.pw_gecos, one.pw_dir, one.pw_shell, names
        )
    return Accounts(users, groups)


def find(name: Any) -> Optional[User]:
    """Return a user of this host without groups; None if there is none.

    Unlike `read`, this also finds users of a directory service that does not list them.
    """
    try:
        one = pwd.getpwnam(str(name))
    except (KeyError, ValueError):
        return None
    return User(one.pw_name, one.pw_uid, one.pw_gid, one.pw_gecos, one.pw_dir, one.pw_shell)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def checked_name(name: Any) -> str:
    """Return *name* if it is a valid account name.

    Raises:
        UsageError: it cannot (it might be read as an option, or break a line of passwd).
    """
    text = str(name)
    if not _NAME.match(text):
        raise UsageError(f"{text[:80]!r} cannot be the name of a user or group")
    return text


def checked_field(text: Any) -> str:
    """Return *text* if it is valid in a field of passwd.

    Raises:
        UsageError: it holds a colon or a line break.
    """
    value = str(text)
    if any(character in value for character in ":\n\r\0"):
        raise UsageError(f"{value[:80]!r} cannot stand in an account file")
    return value


def act(
    context: Context,
    words: List[str],
    root: Optional[str] = None,
    stdin: Optional[str] = None,
) -> None:
    """Run an account tool.

    Raises:
        CommandExecutionError: it is not there, or failed; with what it said.
    """
    program = shutil.which(words[0], path=_TOOL_PATH)
    if program is None:
        raise CommandExecutionError(f"{words[0]} is not available on this host")
    argv = [program, *(["--root", root] if root else []), *words[1:]]
    ran = run(context, argv, RunOptions(python_shell=False, stdin=stdin, cwd="/", timeout=120))
    if ran.retcode:
        raise CommandExecutionError(
            f"{words[0]} failed with return code {ran.retcode}: {ran.stderr or ran.stdout}"
        )

"""user.*: the users of this host."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.shared import accounts
from catena.modules.shared.accounts import checked_field, checked_name
from catena.modules.shared.arguments import listed, take, truth


@dataclass(frozen=True)
class NewUser:
    """Arguments of user.add, with Salt's names and defaults."""

    uid: Any = None
    gid: Any = None
    groups: Any = None
    home: Optional[str] = None
    shell: Optional[str] = None
    unique: bool = True
    system: bool = False
    fullname: str = ""
    roomnumber: str = ""
    workphone: str = ""
    homephone: str = ""
    other: str = ""
    createhome: bool = True
    loginclass: Optional[str] = None
    nologinit: bool = False
    usergroup: Optional[bool] = None
    root: Optional[str] = None
    local: bool = False


def gecos(values: Dict[str, Any]) -> str:
    """Return the comment field of passwd from its five parts."""
    names = ("fullname", "roomnumber", "workphone", "homephone", "other")
    return ",".join(checked_field(values.get(name) or "") for name in names).rstrip(",")


def add_words(name: str, new: NewUser) -> List[str]:
    """Return the argument vector that adds a user."""
    words = ["useradd"]
    if new.shell:
        words += ["-s", checked_field(new.shell)]
    if new.uid not in (None, ""):
        words += ["-u", str(int(new.uid))]
    if new.gid not in (None, ""):
        words += ["-g", checked_field(new.gid)]
    elif new.usergroup is not None:
        words.append("-U" if truth(new.usergroup) else "-N")
    if new.groups:
        words += ["-G", ",".join(checked_name(one) for one in listed(new.groups))]
    words.append("-m" if truth(new.createhome) else "-M")
    if truth(new.nologinit):
        words.append("-l")
    if new.home is not None:
        words += ["-d", checked_field(new.home)]
    if not truth(new.unique):
        words.append("-o")
    if truth(new.system):
        words.append("-r")
    comment = gecos(vars(new))
    if comment:
        words += ["-c", comment]
    return [*words, checked_name(name)]


@function()
def add(context: Context, /, name: str, **options: Any) -> bool:
    """Add a user; return True.

    Args:
        context: the call's context.
        name: login name.
        options: uid, gid, groups, home, shell, unique, system, fullname, roomnumber, workphone,
            homephone, other, createhome, nologinit, usergroup, root.

    Raises:
        CommandExecutionError: useradd refused.
    """
    new = take(NewUser, options, "user.add")
    accounts.act(context, add_words(name, new), new.root)
    return True


@function()
def delete(
    context: Context,
    name: str,
    remove: bool = False,
    force: bool = False,
    root: Optional[str] = None,
) -> bool:
    """Remove a user; with *remove*, also home and mail. Return True."""
    words = ["userdel"]
    if truth(remove):
        words.append("-r")
    if truth(force):
        words.append("-f")
    accounts.act(context, [*words, checked_name(name)], root)
    return True


def _find(name: str, root: Optional[str] = None) -> accounts.User:
    found = accounts.read(root).users.get(str(name))
    if found is None:
        raise CommandExecutionError(f"User '{name}' does not exist")
    return found


def _change(context: Context, name: str, words: List[str], root: Optional[str]) -> bool:
    _find(name, root)
    accounts.act(context, ["usermod", *words, checked_name(name)], root)
    return True


@function()
def chuid(context: Context, name: str, uid: int, root: Optional[str] = None) -> bool:
    """Change the uid of a user; return True."""
    return _change(context, name, ["-u", str(int(uid))], root)


@function()
def chgid(context: Context, name: str, gid: Any, root: Optional[str] = None) -> bool:
    """Change the primary group of a user; return True."""
    return _change(context, name, ["-g", checked_field(gid)], root)


@function()
def chshell(context: Context, name: str, shell: str, root: Optional[str] = None) -> bool:
    """Change the login shell of a user; return True."""
    return _change(context, name, ["-s", checked_field(shell)], root)


@function()
def chhome(
    context: Context, name: str, home: str, persist: bool = False, root: Optional[str] = None
) -> bool:
    """Change the home folder of a user; with *persist*, move it. Return True."""
    words = ["-d", checked_field(home)]
    return _change(context, name, [*words, "-m"] if truth(persist) else words, root)


@function()
def chgroups(
    context: Context, name: str, groups: Any, append: bool = False, root: Optional[str] = None
) -> bool:
    """Set the groups of a user; with *append*, keep the others. Return True."""
    words = ["-a"] if truth(append) else []
    names = ",".join(checked_name(one) for one in listed(groups))
    return _change(context, name, [*words, "-G", names], root)


def _chgecos(
    context: Context, name: str, part: str, value: Any, root: Optional[str] = None
) -> bool:
    found = _find(name, root).as_dict()
    comment = gecos({**found, part: value})
    return _change(context, name, ["-c", comment], root)


@function()
def chfullname(context: Context, name: str, fullname: str, root: Optional[str] = None) -> bool:
    """Change the full name of a user; return True."""
    return _chgecos(context, name, "fullname", fullname, root)


@function()
def chroomnumber(context: Context, name: str, roomnumber: Any, root: Optional[str] = None) -> bool:
    """Change the room of a user; return True."""
    return _chgecos(context, name, "roomnumber", roomnumber, root)


@function()
def chworkphone(context: Context, name: str, workphone: Any, root: Optional[str] = None) -> bool:
    """Change the work phone of a user; return True."""
    return _chgecos(context, name, "workphone", workphone, root)


@function()
def chhomephone(context: Context, name: str, homephone: Any, root: Optional[str] = None) -> bool:
    """Change the home phone of a user; return True."""
    return _chgecos(context, name, "homephone", homephone, root)


@function()
def chother(context: Context, name: str, other: Any, root: Optional[str] = None) -> bool:
    """Change the other comment of a user; return True."""
    return _chgecos(context, name, "other", other, root)


@function()
def rename(context: Context, name: str, new_name: str, root: Optional[str] = None) -> bool:
    """Give a user another login name; return True."""
    return _change(context, name, ["-l", checked_name(new_name)], root)


@function(reads=True)
def info(context: Context, name: str, root: Optional[str] = None) -> Dict[str, Any]:
    """Return name, uid, gid, groups, home, shell and comment fields; {} for an unknown user."""
    found = accounts.read(root).users.get(str(name))
    return found.as_dict() if found else {}


@function(reads=True)
def getent(context: Context, refresh: bool = False) -> List[Dict[str, Any]]:
    """Return user.info of every user."""
    return [one.as_dict() for one in accounts.read().users.values()]


@function(reads=True)
def list_users(context: Context, root: Optional[str] = None) -> List[str]:
    """Return the names of all users, sorted."""
    return sorted(accounts.read(root).users)


@function(reads=True)
def list_groups(context: Context, name: str) -> List[str]:
    """Return the names of a user's groups, sorted."""
    found = accounts.read().users.get(str(name))
    return sorted(found.groups) if found else []


@function(reads=True)
def primary_group(context: Context, name: str) -> str:
    """Return the name of a user's primary group."""
    known = accounts.read()
    found = known.users.get(str(name))
    group = known.group_by_gid(found.gid) if found else None
    return group.name if group else ""

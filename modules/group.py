"""group.*: the groups of this host."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from catena.modules.shared import accounts
from catena.modules.shared.accounts import checked_name
from catena.modules.shared.arguments import listed, truth


@function()
def add(
    context: Context,
    name: str,
    gid: Optional[int] = None,
    system: bool = False,
    root: Optional[str] = None,
    non_unique: bool = False,
) -> bool:
    """Add a group; return True."""
    words = ["groupadd"]
    if gid is not None:
        words += ["-g", str(int(gid))]
    if truth(system):
        words.append("-r")
    if truth(non_unique):
        words.append("-o")
    accounts.act(context, [*words, checked_name(name)], root)
    return True


@function()
def delete(context: Context, name: str, root: Optional[str] = None) -> bool:
    """Remove a group; return True."""
    accounts.act(context, ["groupdel", checked_name(name)], root)
    return True


@function(reads=True)
def info(context: Context, name: str, root: Optional[str] = None) -> Dict[str, Any]:
    """Return name, gid and members of a group; {} if it does not exist."""
    found = accounts.read(root).groups.get(str(name))
    return found.as_dict() if found else {}


@function(reads=True)
def getent(
    context: Context, refresh: bool = False, root: Optional[str] = None
) -> List[Dict[str, Any]]:
    """Return group.info of every group."""
    return [one.as_dict() for one in accounts.read(root).groups.values()]


@function()
def chgid(context: Context, name: str, gid: int, root: Optional[str] = None) -> bool:
    """Change the gid of a group; return True."""
    accounts.act(context, ["groupmod", "-g", str(int(gid)), checked_name(name)], root)
    return True


@function()
def members(context: Context, name: str, members_list: Any, root: Optional[str] = None) -> bool:
    """Set the members of a group to exactly these users; return True.

    Raises:
        CommandExecutionError: there is no such group.
    """
    found = accounts.read(root).groups.get(str(name))
    if found is None:
        raise CommandExecutionError(f"Group '{name}' does not exist")
    wanted = {checked_name(one) for one in listed(members_list)}
    for user in sorted(set(found.members) - wanted):
        deluser(context, name, user, root)
    for user in sorted(wanted - set(found.members)):
        adduser(context, name, user, root)
    return True


@function()
def adduser(context: Context, name: str, username: str, root: Optional[str] = None) -> bool:
    """Add a user to a group; return True."""
    words = ["usermod", "-a", "-G", checked_name(name), checked_name(username)]
    accounts.act(context, words, root)
    return True


@function()
def deluser(context: Context, name: str, username: str, root: Optional[str] = None) -> bool:
    """Remove a user from a group; return True."""
    user, group = checked_name(username), checked_name(name)
    known = accounts.read(root)
    if group in known.groups and user not in known.groups[group].members:
        return True
    left = [g.name for g in known.groups.values() if user in g.members and g.name != group]
    accounts.act(context, ["usermod", "-G", ",".join(left), user], root)
    return True

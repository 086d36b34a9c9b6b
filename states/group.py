"""group.*: groups of the host."""

from __future__ import annotations

from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared import accounts
from catena.modules.shared.arguments import listed, truth
from catena.states.answers import done, failed, would


@dataclass(frozen=True)
class Members:
    """The members that group.present requires."""

    gid: Any = None
    members: Any = None
    addusers: Any = None
    delusers: Any = None


def differences(found: accounts.Group, given: Members) -> Dict[str, Any]:
    """Return the wanted values that differ from the group's, by argument.

    Raises:
        UsageError: `members` with addusers or delusers, or a user in both of the latter.
    """
    gid, members = given.gid, given.members
    addusers, delusers = given.addusers, given.delusers
    if members is not None and (addusers is not None or delusers is not None):
        raise UsageError('Conflict: "members" cannot be used with "addusers" and/or "delusers"')
    if set(listed(addusers)) & set(listed(delusers)):
        raise UsageError("Error. Same user(s) can not be added and deleted simultaneously")
    lacking: Dict[str, Any] = {}
    have = set(found.members)
    if gid is not None and int(gid) != found.gid:
        lacking["gid"] = int(gid)
    if members is not None and set(listed(members)) != have:
        lacking["members"] = sorted(str(one) for one in listed(members))
    adding = sorted({str(one) for one in listed(addusers)} - have)
    removing = sorted({str(one) for one in listed(delusers)} & have)
    if adding:
        lacking["addusers"] = adding
    if removing:
        lacking["delusers"] = removing
    return lacking


def _apply(context: Context, name: str, lacking: Dict[str, Any]) -> None:
    if "gid" in lacking:
        context.call("group.chgid", name, lacking["gid"])
    if "members" in lacking:
        context.call("group.members", name, lacking["members"])
    for user in lacking.get("addusers", []):
        context.call("group.adduser", name, user)
    for user in lacking.get("delusers", []):
        context.call("group.deluser", name, user)


@state()
def present(
    context: Context,
    name: str,
    gid: Optional[int] = None,
    system: bool = False,
    addusers: Any = None,
    delusers: Any = None,
    members: Any = None,
    non_unique: bool = False,
    local: bool = False,
) -> StateResult:
    """Make sure that a group exists, with this gid and these members.

    Args:
        context: the call's context.
        name: its name.
        gid: the numeric id.
        system: take a new group's gid from the range of system groups.
        addusers: users who must be members; others may be too.
        delusers: users who must not be members.
        members: the exact list of members.
        non_unique: allow a gid that another group has.
        local: accepted without effect; only local groups are changed.
    """
    given = Members(gid, members, addusers, delusers)
    try:
        known = accounts.read()
        found = known.groups.get(accounts.checked_name(name))
        if found is not None:
            return _update(context, found, given)
        if context.test:
            return would(f"Group {name} set to be added")
        owner = known.group_by_gid(int(gid)) if gid is not None else None
        if owner and not truth(non_unique):
            return failed(
                f"Group {name} is not present but gid {gid} is already taken by group {owner.name}"
            )
        context.call("group.add", name, gid=gid, system=system, non_unique=non_unique)
        found = accounts.read().groups.get(name)
        if found is None:
            return failed(f"Failed to create new group {name}")
        _apply(context, name, differences(found, given))
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done(f"New group {name} created", context.call("group.info", name))


def _update(context: Context, found: accounts.Group, given: Members) -> StateResult:
    lacking = differences(found, given)
    if not lacking:
        return done(f"Group {found.name} is present and up to date")
    told = "The following group attributes are set to be changed:\n" + "".join(
        f"{key}: {value}\n" for key, value in lacking.items()
    )
    if context.test:
        return would(told)
    _apply(context, found.name, lacking)
    return done(told, lacking)


@state()
def absent(context: Context, name: str, local: bool = False) -> StateResult:
    """Make sure that a group does not exist."""
    if name not in accounts.read().groups:
        return done("Group not present")
    if context.test:
        return would(f"Group {name} is set for removal")
    try:
        context.call("group.delete", name)
    except CommandExecutionError as problem:
        return failed(f"Failed to remove group {name}: {problem}")
    return done(f"Removed group {name}", {name: ""})

"""acl.*: entries in the access control lists of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules import acl
from catena.modules.shared.arguments import listed, truth
from catena.states.answers import done, failed, would

_DESIRED = "Permissions are in the desired state"


@dataclass(frozen=True)
class _Order:
    """Wanted entries of one kind, checked."""

    path: str
    acl_type: str
    entries: Sequence[acl.AclEntry]
    perms: str
    recurse: bool


def _order(path: str, acl_type: Any, names: Sequence[Any], perms: Any, recurse: Any) -> _Order:
    """Return the order for the arguments of a state.

    Raises:
        UsageError: an argument makes no sense, or there is no such path.
    """
    if not Path(str(path)).exists():
        raise UsageError(f"{path} does not exist")
    entries = [acl.entry_of(acl_type, name) for name in names]
    return _Order(str(path), str(acl_type), entries, acl.checked_perms(perms), truth(recurse))


def _name(row: Mapping[str, Any], entry: acl.AclEntry) -> str:
    """Return the name by which getfacl's row has an entry; "" is the owner's."""
    owners = {"user": "owner", "group": "group"}
    if entry.name or entry.kind not in owners:
        return entry.name
    return str(row["comment"].get(owners[entry.kind], ""))


def _octal(row: Dict[str, Any], entry: acl.AclEntry) -> Optional[int]:
    """Return the permissions of an entry; None if there is none."""
    # The owner's own entry comes first, then one by name for the same user.
    found = acl.entries(row, entry)
    return dict(found if entry.name else reversed(found)).get(_name(row, entry))


def _is_right(octal: Optional[int], perms: str) -> bool:
    wanted = acl.octal_of(perms)
    # X adds x only to folders and to files that somebody may execute.
    return octal == wanted or ("X" in perms and octal is not None and octal == wanted - 1)


def _wrong(lists: acl.Lists, entry: acl.AclEntry, perms: str) -> List[str]:
    """Return the paths on which an entry is missing or different."""
    return [
        path
        for path, row in lists.items()
        if not (entry.default and not Path(path).is_dir())
        and not _is_right(_octal(row, entry), perms)
    ]


def _letters(octal: int) -> str:
    return "".join(mark if octal & bit else "-" for mark, bit in (("r", 4), ("w", 2), ("x", 1)))


def _ensure(context: Context, order: _Order, *, label: Any, force: bool) -> StateResult:
    """Bring all entries of an order to their permissions."""
    lists = context.call("acl.getfacl", order.path, recursive=order.recurse)
    wrong = [one for one in order.entries if _wrong(lists, one, order.perms)]
    if not wrong:
        return done(_DESIRED)
    wanted = {"acl_name": label, "acl_type": order.acl_type, "perms": order.perms}
    changes: Dict[str, Any] = {"new": wanted}
    before = [_octal(lists.get(order.path, {"comment": {}}), one) for one in wrong]
    old = next((_letters(one) for one in before if one is not None), "")
    if old:
        changes["old"] = {**wanted, "perms": old}
    if context.test:
        if old:
            told = f"Updated permissions will be applied for {label}: {old} -> {order.perms}"
        else:
            told = f"New permissions will be applied for {label}: {order.perms}"
        return would(told, changes)
    try:
        if force:
            context.call("acl.wipefacls", order.path, recursive=order.recurse)
        for one in order.entries if force else wrong:
            kind = f"{'default:' if one.default else ''}{one.kind}"
            context.call(
                "acl.modfacl", kind, one.name, order.perms, order.path, recursive=order.recurse
            )
    except CommandExecutionError as problem:
        return failed(f"Error updating permissions for {label}: {problem}")
    verb = "Updated permissions" if old else "Applied new permissions"
    return done(f"{verb} for {label}", changes)


def _remove(context: Context, order: _Order, *, label: Any) -> StateResult:
    """Remove all entries of an order."""
    lists = context.call("acl.getfacl", order.path, recursive=order.recurse)
    there = [
        one for one in order.entries if any(_octal(row, one) is not None for row in lists.values())
    ]
    if not there:
        return done(_DESIRED)
    if context.test:
        return would("Removing permissions")
    try:
        for one in there:
            kind = f"{'default:' if one.default else ''}{one.kind}"
            context.call("acl.delfacl", kind, one.name, order.path, recursive=order.recurse)
    except CommandExecutionError as problem:
        return failed(f"Error removing permissions for {label}: {problem}")
    return done("Removing permissions", {"old": {"acl_name": label, "acl_type": order.acl_type}})


@state()
def present(
    context: Context,
    name: str,
    acl_type: str,
    acl_name: str = "",
    perms: str = "",
    recurse: Any = False,
    force: Any = False,
) -> StateResult:
    """Make sure that a user or group has permissions on a file.

    Args:
        context: of the run.
        name: path of the file or folder.
        acl_type: user, group, other or mask; "default:" or "d:" before it for new files.
        acl_name: the user or group; "" for the owner.
        perms: letters of rwxX, or a digit.
        recurse: also on all that is below the folder.
        force: when something has to change, remove all other entries.
    """
    try:
        order = _order(name, acl_type, [acl_name], perms, recurse)
        return _ensure(context, order, label=acl_name, force=truth(force))
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))


@state()
def absent(
    context: Context,
    name: str,
    acl_type: str,
    acl_name: str = "",
    perms: str = "",
    recurse: Any = False,
) -> StateResult:
    """Make sure that a user or group has no entry on a file.

    Args:
        context: of the run.
        name: path of the file or folder.
        acl_type: as for acl.present.
        acl_name: the user or group.
        perms: ignored: the whole entry is removed, as in Salt.
        recurse: also on all that is below the folder.
    """
    try:
        order = _order(name, acl_type, [acl_name], "", recurse)
        return _remove(context, order, label=acl_name)
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))


@state()
def list_present(
    context: Context,
    name: str,
    acl_type: str,
    acl_names: Any = None,
    perms: str = "",
    recurse: Any = False,
    force: Any = False,
) -> StateResult:
    """Make sure that several users or groups have permissions on a file.

    Args:
        context: of the run.
        name: path of the file or folder.
        acl_type: as for acl.present.
        acl_names: a list of users or groups.
        perms: letters of rwxX, or a digit.
        recurse: also on all that is below the folder.
        force: when something has to change, remove all other entries.
    """
    names = listed(acl_names) or [""]
    try:
        order = _order(name, acl_type, names, perms, recurse)
        label = ", ".join(map(str, names))
        return _ensure(context, order, label=label, force=truth(force))
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))


@state()
def list_absent(
    context: Context, name: str, acl_type: str, acl_names: Any = None, recurse: Any = False
) -> StateResult:
    """Make sure that several users or groups have no entries on a file.

    Args:
        context: of the run.
        name: path of the file or folder.
        acl_type: as for acl.present.
        acl_names: a list of users or groups.
        recurse: also on all that is below the folder.
    """
    names = listed(acl_names) or [""]
    try:
        order = _order(name, acl_type, names, "", recurse)
        return _remove(context, order, label=", ".join(map(str, names)))
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))

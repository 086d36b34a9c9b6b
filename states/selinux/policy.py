"""selinux.fcontext_policy_* and selinux.port_policy_*."""

from __future__ import annotations

from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.selinux import parse
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would


@state()
def fcontext_policy_present(
    context: Context,
    name: str,
    sel_type: str,
    filetype: str = "a",
    sel_user: Optional[str] = None,
    sel_level: Optional[str] = None,
) -> StateResult:
    """Make sure that the policy gives files a context; files that exist keep theirs.

    Args:
        context: of the run.
        name: pattern of the paths.
        sel_type: type of the context.
        filetype: a (all), f, d, c, b, s, l or p.
        sel_user: user of the context.
        sel_level: level of the context.
    """
    wanted = {"sel_type": sel_type, "sel_user": sel_user, "sel_level": sel_level}
    wanted = {key: str(value) for key, value in wanted.items() if value is not None}
    try:
        kind = parse.file_type(filetype)
        there = context.call("selinux.fcontext_get_policy", name, filetype)
        differ = {key: value for key, value in wanted.items() if (there or {}).get(key) != value}
        if there is not None and not differ:
            return done(
                f'SELinux policy for "{name}" already present with specified filetype "{kind}" '
                f'and sel_type "{sel_type}".'
            )
        if there is None:
            changes: Dict[str, Any] = {"old": {}, "new": {name: {"filetype": kind, **wanted}}}
        else:
            changes = {"old": {name: {key: there[key] for key in differ}}, "new": {name: differ}}
        if context.test:
            return would(f'SELinux policy for "{name}" is set to be added', changes)
        context.call("selinux.fcontext_add_policy", name, filetype, sel_type, sel_user, sel_level)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Error adding new rule: {problem}")
    return done(f'SELinux policy for "{name}" has been added', changes)


@state()
def fcontext_policy_absent(
    context: Context,
    name: str,
    filetype: str = "a",
    sel_type: Optional[str] = None,
    sel_user: Optional[str] = None,
    sel_level: Optional[str] = None,
) -> StateResult:
    """Make sure that the policy has no rule for files; those of the distribution can't be removed.

    Args:
        context: of the run.
        name: pattern of the paths.
        filetype: a (all), f, d, c, b, s, l or p.
        sel_type: only with this type.
        sel_user: only with this user.
        sel_level: only with this level.
    """
    try:
        there = context.call(
            "selinux.fcontext_get_policy", name, filetype, sel_type, sel_user, sel_level
        )
        if there is None:
            return done(
                f'SELinux policy for "{name}" already absent with specified filetype '
                f'"{filetype}" and sel_type "{sel_type}".'
            )
        changes = {"old": {name: there}, "new": {}}
        if context.test:
            return would(f'SELinux policy for "{name}" is set to be removed', changes)
        context.call(
            "selinux.fcontext_delete_policy", name, filetype, sel_type or there["sel_type"],
            sel_user, sel_level,
        )  # fmt: skip
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Error removing policy: {problem}")
    return done(f'SELinux policy for "{name}" has been removed', changes)


@state()
def fcontext_policy_applied(context: Context, name: str, recursive: Any = False) -> StateResult:
    """Make sure that files have the contexts of the policy.

    Args:
        context: of the run.
        name: path of a file or folder.
        recursive: also all that is below the folder.
    """
    walk = truth(recursive)
    try:
        told = context.call("selinux.fcontext_policy_is_applied", name, walk)
        if not told:
            return done(f'SElinux policies are already applied for filespec "{name}"')
        if context.test:
            return would(f'SElinux policies are set to be applied for filespec "{name}"')
        found = context.call("selinux.fcontext_apply_policy", name, walk)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    changes = found["changes"]
    if not changes:
        return failed(f'restorecon did not say what it changed for filespec "{name}": {told}')
    return done(f'SElinux policies have been applied for filespec "{name}"', changes)


@state()
def port_policy_present(
    context: Context,
    name: str,
    sel_type: str,
    protocol: Optional[str] = None,
    port: Any = None,
    sel_range: Optional[str] = None,
) -> StateResult:
    """Make sure that the policy gives a port a type.

    Args:
        context: of the run.
        name: PROTOCOL/PORT or PROTOCOL/FIRST-LAST.
        sel_type: the type.
        protocol: tcp or udp, if the name is no port.
        port: the port or range, if the name is no port.
        sel_range: range of the context.
    """
    where = {"name": name, "protocol": protocol, "port": port}
    try:
        if context.call("selinux.port_get_policy", sel_type=sel_type, **where):
            return done(
                f'SELinux policy for "{name}" already present with specified sel_type '
                f'"{sel_type}", protocol "{protocol}" and port "{port}".'
            )
        if context.test:
            return would(f'SELinux policy for "{name}" is set to be added')
        old = context.call("selinux.port_get_policy", **where)
        action = "modify" if old else "add"
        more = {"sel_type": sel_type, "sel_range": sel_range}
        context.call(f"selinux.port_{action}_policy", **where, **more)
        new = context.call("selinux.port_get_policy", sel_type=sel_type, **where)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Error adding new policy: {problem}")
    return done(f'SELinux policy for "{name}" has been added', {"old": old, "new": new})


@state()
def port_policy_absent(
    context: Context,
    name: str,
    sel_type: Optional[str] = None,
    protocol: Optional[str] = None,
    port: Any = None,
) -> StateResult:
    """Make sure that the policy gives a port no type; those of the distribution can't be removed.

    Args:
        context: of the run.
        name: PROTOCOL/PORT or PROTOCOL/FIRST-LAST.
        sel_type: only if it has this type.
        protocol: tcp or udp, if the name is no port.
        port: the port or range, if the name is no port.
    """
    where = {"name": name, "protocol": protocol, "port": port}
    try:
        old = context.call("selinux.port_get_policy", sel_type=sel_type, **where)
        if not old:
            return done(
                f'SELinux policy for "{name}" already absent with specified sel_type '
                f'"{sel_type}", protocol "{protocol}" and port "{port}".'
            )
        if context.test:
            return would(f'SELinux policy for "{name}" is set to be removed')
        context.call("selinux.port_delete_policy", **where)
        new = context.call("selinux.port_get_policy", sel_type=sel_type, **where)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Error deleting policy: {problem}")
    return done(f'SELinux policy for "{name}" has been removed', {"old": old, "new": new})

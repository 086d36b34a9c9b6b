"""user.*: users of the host."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, fields, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared import accounts
from catena.modules.shared.arguments import listed, split, truth
from catena.modules.shared.crypted import crypted
from catena.states.answers import done, failed, likely_typos, would

_GECOS = ("fullname", "roomnumber", "workphone", "homephone", "other")
_AGEING = {
    "date": ("lstchg", "shadow.set_date"),
    "mindays": ("min", "shadow.set_mindays"),
    "maxdays": ("max", "shadow.set_maxdays"),
    "warndays": ("warn", "shadow.set_warndays"),
    "inactdays": ("inact", "shadow.set_inactdays"),
    "expire": ("expire", "shadow.set_expire"),
}
_HIDDEN = "XXX-REDACTED-XXX"


@dataclass(frozen=True)
class UserOptions:
    """Arguments of user.present, with Salt's names and defaults."""

    uid: Any = None
    gid: Any = None
    usergroup: Optional[bool] = None
    groups: Any = None
    optional_groups: Any = None
    remove_groups: bool = True
    home: Optional[str] = None
    createhome: bool = True
    password: Optional[str] = None
    hash_password: bool = False
    enforce_password: bool = True
    empty_password: bool = False
    shell: Optional[str] = None
    unique: bool = True
    system: bool = False
    fullname: Optional[str] = None
    roomnumber: Any = None
    workphone: Any = None
    homephone: Any = None
    other: Any = None
    loginclass: Optional[str] = None
    date: Any = None
    mindays: Any = None
    maxdays: Any = None
    inactdays: Any = None
    warndays: Any = None
    expire: Any = None
    nologinit: bool = False
    allow_uid_change: bool = False
    allow_gid_change: bool = False
    password_lock: Optional[bool] = None
    gid_from_name: bool = False
    win_homedrive: Any = None
    win_profile: Any = None
    win_logonscript: Any = None
    win_description: Any = None
    local: bool = False


def wanted_gid(known: accounts.Accounts, name: str, options: UserOptions) -> Optional[int]:
    """Return the gid of the wanted primary group; None if none is given.

    Raises:
        UsageError: the group does not exist.
    """
    gid = name if truth(options.gid_from_name) and options.gid is None else options.gid
    if gid in (None, ""):
        return None
    if str(gid).isdigit():
        return int(gid)
    if str(gid) not in known.groups:
        raise UsageError(f'Default group with name "{gid}" is not present')
    return known.groups[str(gid)].gid


def wanted_groups(known: accounts.Accounts, options: UserOptions) -> Optional[List[str]]:
    """Return the wanted supplementary groups; None if none are given.

    Raises:
        UsageError: a group that is not optional does not exist.
    """
    if options.groups is None and options.optional_groups is None:
        return None
    needed = [str(one) for one in listed(options.groups)]
    missing = sorted(set(needed) - set(known.groups))
    if missing:
        raise UsageError(f"The following group(s) are not present: {','.join(missing)}")
    extra = [str(one) for one in listed(options.optional_groups) if str(one) in known.groups]
    return sorted({*needed, *extra})


def differences(
    found: accounts.User, options: UserOptions, gid: Optional[int], groups: Optional[List[str]]
) -> Dict[str, Any]:
    """Return the wanted values that differ from the user's, in the order to apply them."""
    told = found.as_dict()
    lacking: Dict[str, Any] = {}
    if options.uid not in (None, "") and int(options.uid) != found.uid:
        lacking["uid"] = int(options.uid)
    if gid is not None and gid != found.gid:
        lacking["gid"] = gid
    for name in ("shell", "home"):
        value = getattr(options, name)
        if value and value != told[name]:
            lacking[name] = value
    for name in _GECOS:
        value = getattr(options, name)
        if value is not None and str(value) != told[name]:
            lacking[name] = str(value)
    if groups is not None:
        have = set(found.groups)
        primary = {one for one in found.groups if one not in groups and one == told["name"]}
        if not set(groups) <= have:
            lacking["groups"] = groups
        elif truth(options.remove_groups) and have - set(groups) - primary - _primary(found):
            lacking["groups"] = groups
    return lacking


def _primary(found: accounts.User) -> set[str]:
    group = accounts.read().group_by_gid(found.gid)
    return {group.name} if group else set()


def _shadow_differences(context: Context, name: str, options: UserOptions) -> Dict[str, Any]:
    """Return the wanted values that differ from the shadow entry; {} if it can't be read."""
    wanted = {key: getattr(options, key) for key in _AGEING if getattr(options, key) is not None}
    password = options.password if truth(options.enforce_password) else None
    if not wanted and password is None and not truth(options.empty_password):
        return {}
    entry = context.call("shadow.info", name)
    lacking: Dict[str, Any] = {}
    for key, value in wanted.items():
        if str(entry.get(_AGEING[key][0])) != str(value):
            lacking[key] = value
    if truth(options.empty_password):
        if entry["passwd"] != "":
            lacking["empty_password"] = True
    elif password is not None and entry["passwd"].lstrip("!") != password:
        lacking["password"] = password
    return lacking


def _apply(context: Context, name: str, lacking: Dict[str, Any], options: UserOptions) -> None:
    for key, value in lacking.items():
        if key == "uid":
            context.call("user.chuid", name, value)
        elif key == "gid":
            context.call("user.chgid", name, value)
        elif key == "home":
            context.call("user.chhome", name, value, persist=False)
        elif key == "groups":
            context.call("user.chgroups", name, value, not truth(options.remove_groups))
        elif key == "password":
            context.call("shadow.set_password", name, value)
        elif key == "empty_password":
            context.call("shadow.del_password", name)
        elif key in _AGEING:
            context.call(_AGEING[key][1], name, value)
        else:
            context.call(f"user.ch{key}", name, value)


def _shown(
    lacking: Dict[str, Any], options: UserOptions, have: Sequence[str] = ()
) -> Dict[str, Any]:
    """Return the changes as Salt reports them: passwords hidden, groups in full."""
    shown: Dict[str, Any] = {}
    for key, value in lacking.items():
        if key in ("password", "empty_password"):
            shown["passwd"] = _HIDDEN
        elif key == "groups" and not truth(options.remove_groups):
            shown[key] = sorted({*have, *value})
        else:
            shown[_AGEING[key][0] if key in _AGEING else key] = value
    return shown


def _refused(found: accounts.User, lacking: Dict[str, Any], options: UserOptions) -> str:
    """Return why a change of uid or gid is not allowed, or ""."""
    if "uid" in lacking and not truth(options.allow_uid_change):
        return (
            f"Changing uid ({found.uid} -> {lacking['uid']}) not permitted, set allow_uid_change"
        )
    if "gid" in lacking and not truth(options.allow_gid_change):
        return (
            f"Changing gid ({found.gid} -> {lacking['gid']}) not permitted, set allow_gid_change"
        )
    return ""


def _add(
    context: Context, name: str, options: UserOptions, gid: Optional[int], groups: Any
) -> StateResult:
    if context.test:
        return would(f"User {name} set to be added")
    names = {"uid", "home", "shell", "unique", "system", "createhome", "nologinit", "usergroup"}
    given = {one.name: getattr(options, one.name) for one in fields(options) if one.name in names}
    comment = {key: getattr(options, key) or "" for key in _GECOS}
    context.call("user.add", name, gid=gid, groups=groups, **given, **comment)
    lacking = _shadow_differences(context, name, options)
    _apply(context, name, lacking, options)
    changes = {**context.call("user.info", name), **_shown(lacking, options)}
    return done(f"New user {name} created", changes)


def _update(
    context: Context, found: accounts.User, options: UserOptions, parts: Tuple[Any, Any]
) -> StateResult:
    name = found.name
    lacking = differences(found, options, *parts)
    refused = _refused(found, lacking, options)
    if refused:
        return failed(refused)
    lacking.update(_shadow_differences(context, name, options))
    if not lacking:
        return done(f"User {name} is present and up to date")
    changes = _shown(lacking, options, found.groups)
    if context.test:
        lines = [f"{key}: {value}" for key, value in changes.items()]
        told = "The following user attributes are set to be changed:"
        return would("\n".join([told, *lines]) + "\n")
    _apply(context, name, lacking, options)
    return done(f"Updated user {name}", changes)


def _hashed(context: Context, name: str, known: bool, options: UserOptions) -> UserOptions:
    """Return the options with the password hashed; keep the current hash if it matches.

    Raises:
        CommandExecutionError: this host has no way to hash passwords.
    """
    if options.password is None or not truth(options.hash_password):
        return options
    present = str(context.call("shadow.info", name)["passwd"]) if known else ""
    password, parts = str(options.password), present.split("$")
    if len(parts) == 4 and parts[1] == "6":
        # With the salt of the current hash, an equal password gives an equal hash.
        if crypted(context, password, parts[2]) == present:
            return replace(options, password=present)
    return replace(options, password=crypted(context, password))


@state()
def present(context: Context, /, name: str, **options: Any) -> StateResult:
    """Make sure that a user exists with these attributes.

    Args:
        context: the call's context.
        name: login name.
        options: uid, gid (name or number), groups, optional_groups, remove_groups, home,
            createhome, password (a hash; with hash_password, plain text), enforce_password,
            empty_password, shell, system, fullname, roomnumber, workphone, homephone, other,
            usergroup, unique, expire, mindays, maxdays, warndays, inactdays, date,
            allow_uid_change, allow_gid_change, … as in Salt.
    """
    chosen, rest = split(UserOptions, options)
    warnings = likely_typos(UserOptions, rest, "user.present")
    try:
        accounts.checked_name(name)
        known = accounts.read()
        found = known.users.get(name)
        chosen = _hashed(context, name, found is not None, chosen)
        try:
            gid, groups = wanted_gid(known, name, chosen), wanted_groups(known, chosen)
        except UsageError as problem:
            # In test mode an earlier state that would create the group has not created it.
            return would(str(problem)) if context.test else failed(str(problem))
        if found is None:
            result = _add(context, name, chosen, gid, groups)
        else:
            result = _update(context, found, chosen, (gid, groups))
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return StateResult(result.result, result.changes, result.comment, warnings)


@state()
def absent(context: Context, name: str, purge: bool = False, force: bool = False) -> StateResult:
    """Make sure that a user does not exist; *purge* also removes the home folder."""
    if name not in accounts.read().users:
        return done(f"User {name} is not present")
    if context.test:
        return would(f"User {name} set for removal")
    try:
        groups = set(accounts.read().groups)
        context.call("user.delete", name, remove=purge, force=force)
    except CommandExecutionError as problem:
        return failed(f"Failed to remove user {name}: {problem}")
    changes = {name: "removed"}
    changes.update({f"{one} group": "removed" for one in groups - set(accounts.read().groups)})
    return done(f"Removed user {name}", changes)

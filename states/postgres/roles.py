"""Roles of PostgreSQL, which postgres_user and postgres_group bring into their wanted state."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.types import StateResult
from catena.modules.postgres import passwords
from catena.modules.postgres.roles import ATTRIBUTES, group_names
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would
from catena.states.postgres.server import ServerOptions, attempt, given, taken


@dataclass(frozen=True)
class RoleOptions:
    """Attributes of a role, with Salt's names; None leaves one as it is."""

    createdb: Optional[bool] = None
    createroles: Optional[bool] = None
    encrypted: Any = None
    superuser: Optional[bool] = None
    replication: Optional[bool] = None
    inherit: Optional[bool] = None
    login: Optional[bool] = None
    #: Plain text, or a form that the server stores.
    password: Optional[str] = None
    #: Password of a role that is created, if there is no other.
    default_password: Optional[str] = None
    #: Set the password without a comparison, which needs a superuser.
    refresh_password: Optional[bool] = None
    valid_until: Optional[str] = None
    groups: Any = None


def present(context: Context, kind: str, name: str, arguments: Mapping[str, Any]) -> StateResult:
    """Make sure that a role exists with these attributes.

    Args:
        context: the call's context.
        kind: "user" or "group".
        name: of the role.
        arguments: as of the states.
    """
    options, server, warnings = taken(RoleOptions, arguments, f"postgres_{kind}.present")
    return attempt(
        context,
        lambda: _present(context, kind, str(name), options, server),
        f"{kind.capitalize()} {name} is set to be created",
        warnings,
    )


def _present(
    context: Context, kind: str, name: str, options: RoleOptions, server: ServerOptions
) -> StateResult:
    passwords.method_of(options.encrypted)
    compared = options.password is not None and not truth(options.refresh_password)
    words = server.words()
    found = context.call("postgres.role_get", name, return_password=compared, **words)
    if found is None:
        verb, changes = "create", {}
        wanted = _creation(options)
    else:
        verb, changes = "update", _differences(context, name, options, found, words)
        wanted = {key: getattr(options, key, None) for key in changes}
        if "password" in changes:
            wanted["rolepassword"] = str(wanted.pop("password"))
            wanted["encrypted"] = options.encrypted
        if "groups" in changes:
            wanted["groups"] = changes["groups"]
    title = kind.capitalize()
    if verb == "update" and not changes:
        return done(f"{title} {name} is already present")
    if context.test:
        told = {name: changes} if changes else {}
        return would(f"{title} {name} is set to be {verb}d", told)
    try:
        made = context.call(f"postgres.{kind}_{verb}", name, **wanted, **words)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Failed to {verb} {kind} {name}: {problem}")
    if not made:
        return failed(f"Failed to {verb} {kind} {name}")
    return done(f"The {kind} {name} has been {verb}d", {name: changes or "Present"})


def _creation(options: RoleOptions) -> Dict[str, Any]:
    """Return the arguments of postgres.user_create."""
    wanted = given(options)
    wanted.pop("refresh_password", None)
    default = wanted.pop("default_password", None)
    password = wanted.pop("password", default)
    if password is not None:
        wanted["rolepassword"] = str(password)
    return wanted


def _differences(
    context: Context,
    name: str,
    options: RoleOptions,
    found: Mapping[str, Any],
    words: Mapping[str, Any],
) -> Dict[str, Any]:
    """Return the wanted attributes that a role lacks; a password only as True."""
    lacking: Dict[str, Any] = {}
    for key, (_, attribute) in ATTRIBUTES.items():
        value = getattr(options, key)
        if value is not None and truth(value) != found[attribute]:
            lacking[key] = value
    if options.password is not None and _needs_password(name, options, found):
        lacking["password"] = True
    if options.valid_until is not None:
        moment = context.call("postgres.moment", options.valid_until, **words)
        if moment != (found["expiry time"] or ""):
            lacking["valid_until"] = options.valid_until
    missing = [one for one in group_names(options.groups) if one not in found["groups"]]
    if missing:
        lacking["groups"] = missing
    return lacking


def _needs_password(name: str, options: RoleOptions, found: Mapping[str, Any]) -> bool:
    if truth(options.refresh_password):
        return True
    method = passwords.method_of(options.encrypted)
    return not passwords.matches(name, str(options.password), found["password"], method)


def absent(context: Context, kind: str, name: str, arguments: Mapping[str, Any]) -> StateResult:
    """Make sure that a role does not exist; arguments as of `present`."""
    _, server, warnings = taken(None, arguments, f"postgres_{kind}.absent")
    expected = f"{kind.capitalize()} {name} is set to be removed"
    return attempt(context, lambda: _absent(context, kind, str(name), server), expected, warnings)


def _absent(context: Context, kind: str, name: str, server: ServerOptions) -> StateResult:
    title = kind.capitalize()
    if not context.call("postgres.user_exists", name, **server.words()):
        return done(f"{title} {name} is not present, so it cannot be removed")
    if context.test:
        return would(f"{title} {name} is set to be removed")
    try:
        context.call(f"postgres.{kind}_remove", name, **server.words())
    except CommandExecutionError as problem:
        return failed(f"{title} {name} failed to be removed: {problem}")
    return done(f"{title} {name} has been removed", {name: "Absent"})

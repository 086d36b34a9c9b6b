"""postgres.user_* and postgres.group_*: roles of a server."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.postgres import passwords
from catena.modules.postgres.psql import PsqlConnection, act, ask, connection
from catena.modules.shared.arguments import listed, take, truth

_SELECT = """SELECT r.rolname AS "name", r.rolsuper AS "superuser",
 r.rolinherit AS "inherits privileges", r.rolcreaterole AS "can create roles",
 r.rolcreatedb AS "can create databases", r.rolcanlogin AS "can login",
 r.rolreplication AS "replication", r.rolconnlimit AS "connections",
 to_json(ARRAY(SELECT g.rolname::text FROM pg_catalog.pg_auth_members m
   JOIN pg_catalog.pg_roles g ON m.roleid = g.oid WHERE m.member = r.oid ORDER BY 1)) AS "groups",
 r.rolvaliduntil::timestamp(0) AS "expiry time", r.rolconfig AS "defaults variables"
"""
_PLAIN = f"{_SELECT} FROM pg_catalog.pg_roles r"
_WITH_PASSWORD = f"""{_SELECT}, a.rolpassword AS "password"
 FROM pg_catalog.pg_roles r JOIN pg_catalog.pg_authid a ON a.oid = r.oid"""
_FLAGS = (
    "superuser",
    "inherits privileges",
    "can create roles",
    "can create databases",
    "can login",
    "replication",
)
#: By argument: the word of CREATE ROLE and the attribute in a listing.
ATTRIBUTES: Mapping[str, Tuple[str, str]] = {
    "createdb": ("CREATEDB", "can create databases"),
    "inherit": ("INHERIT", "inherits privileges"),
    "login": ("LOGIN", "can login"),
    "createroles": ("CREATEROLE", "can create roles"),
    "replication": ("REPLICATION", "replication"),
    "superuser": ("SUPERUSER", "superuser"),
}


@dataclass(frozen=True)
class RoleAttributes:
    """Attributes of a role, with Salt's names; None leaves one as it is."""

    createdb: Optional[bool] = None
    createroles: Optional[bool] = None
    encrypted: Any = None
    superuser: Optional[bool] = None
    login: Optional[bool] = None
    connlimit: Any = None
    inherit: Optional[bool] = None
    replication: Optional[bool] = None
    #: Plain text, or a form that the server stores.
    rolepassword: Optional[str] = None
    valid_until: Optional[str] = None
    groups: Any = None


def _role(row: Mapping[str, str]) -> Dict[str, Any]:
    found: Dict[str, Any] = {key: row[key] == "t" for key in _FLAGS}
    found["can update system catalogs"] = None
    found["connections"] = int(row["connections"])
    found["expiry time"] = row["expiry time"] or None
    found["defaults variables"] = row["defaults variables"]
    found["groups"] = json.loads(row["groups"])
    if "password" in row:
        found["password"] = row["password"]
    return found


def _roles(context: Context, server: PsqlConnection, return_password: bool) -> Dict[str, Any]:
    rows = ask(context, server, _WITH_PASSWORD if return_password else _PLAIN)
    return {row["name"]: _role(row) for row in rows}


@function(reads=True)
def user_list(context: Context, /, **arguments: Any) -> Dict[str, Dict[str, Any]]:
    """Return the roles of a server by name.

    Args:
        context: the call's context.
        arguments: user, host, port, maintenance_db, password, runas; return_password (False) adds
            the stored form of the password, which only a superuser may read.
    """
    server, rest = connection(context, arguments)
    return _roles(context, server, _return_password(rest, "postgres.user_list"))


@dataclass(frozen=True)
class _ListOptions:
    """Arguments of functions that list roles."""

    return_password: bool = False


def _return_password(rest: Mapping[str, Any], what: str) -> bool:
    return truth(take(_ListOptions, rest, what).return_password)


@function(reads=True)
def role_get(context: Context, /, name: str, **arguments: Any) -> Optional[Dict[str, Any]]:
    """Return one role as user_list shows it, or None; arguments as of user_list."""
    server, rest = connection(context, arguments)
    return _roles(context, server, _return_password(rest, "postgres.role_get")).get(str(name))


@function(reads=True)
def user_exists(context: Context, /, name: str, **arguments: Any) -> bool:
    """Return whether a role exists; arguments: those of the connection, as of user_list."""
    server, rest = connection(context, arguments)
    _return_password(rest, "postgres.user_exists")
    return str(name) in _roles(context, server, False)


@function(reads=True)
def moment(context: Context, /, text: str, **arguments: Any) -> str:
    """Return a date and time as the server writes it (2030-01-31 00:00:00)."""
    server, _ = connection(context, arguments)
    query = "SELECT (:'moment'::timestamptz)::timestamp(0) AS moment"
    return ask(context, server, query, {"moment": text})[0]["moment"]


def group_names(groups: Any) -> List[str]:
    """Return the names of groups that are given as a list or separated by commas."""
    return [str(one) for one in listed(groups)]


def _clauses(options: RoleAttributes) -> List[str]:
    """Return the words of CREATE ROLE or ALTER ROLE.

    Raises:
        UsageError: connlimit is no number.
    """
    words = []
    for key, (word, _) in ATTRIBUTES.items():
        value = getattr(options, key)
        if value is not None:
            words.append(word if truth(value) else f"NO{word}")
    if options.connlimit is not None:
        try:
            words.append(f"CONNECTION LIMIT {int(options.connlimit)}")
        except (TypeError, ValueError):
            raise UsageError(f"connlimit: {options.connlimit!r} is no number") from None
    if options.rolepassword is not None:
        words.append("PASSWORD :'password'")
    if options.valid_until is not None:
        words.append("VALID UNTIL :'valid_until'")
    return words


def _stored_form(
    context: Context, server: PsqlConnection, name: str, options: RoleAttributes
) -> str:
    """Return the wanted password as the server stores it, so that it never gets the plain text."""
    password = str(options.rolepassword)
    method = passwords.method_of(options.encrypted)
    if not method and not passwords.is_hashed(password):
        query = "SELECT current_setting('password_encryption') AS method"
        method = ask(context, server, query)[0]["method"]
    return passwords.hashed(name, password, method)


def _write(
    context: Context, server: PsqlConnection, verb: str, name: str, options: RoleAttributes
) -> None:
    """Run CREATE ROLE or ALTER ROLE, and grant the groups, in one transaction."""
    clauses = _clauses(options)
    values: Dict[str, Any] = {"name": name}
    if options.rolepassword is not None:
        values["password"] = _stored_form(context, server, name, options)
    if options.valid_until is not None:
        values["valid_until"] = options.valid_until
    statements = []
    if clauses or verb == "CREATE":
        words = f" WITH {' '.join(clauses)}" if clauses else ""
        statements.append(f'{verb} ROLE :"name"{words}')
    for number, group in enumerate(group_names(options.groups)):
        values[f"group{number}"] = group
        statements.append(f'GRANT :"group{number}" TO :"name"')
    if statements:
        act(context, server, statements, values)


def _create(context: Context, name: str, login: bool, arguments: Mapping[str, Any]) -> bool:
    server, rest = connection(context, arguments)
    options = take(RoleAttributes, {"login": login, "inherit": True, **_given(rest)}, "postgres")
    if str(name) in _roles(context, server, False):
        return False
    _write(context, server, "CREATE", str(name), options)
    return True


def _given(rest: Mapping[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in rest.items() if value is not None}


def _update(context: Context, name: str, arguments: Mapping[str, Any]) -> bool:
    server, rest = connection(context, arguments)
    options = take(RoleAttributes, rest, "postgres")
    if str(name) not in _roles(context, server, False):
        raise CommandExecutionError(f"there is no role {name}")
    _write(context, server, "ALTER", str(name), options)
    return True


def _remove(context: Context, name: str, arguments: Mapping[str, Any]) -> bool:
    server, rest = connection(context, arguments)
    _return_password(rest, "postgres")
    if str(name) not in _roles(context, server, False):
        return False
    act(context, server, ['DROP ROLE :"name"'], {"name": name})
    return True


@function(fails="bool")
def user_create(context: Context, /, username: str, **arguments: Any) -> bool:
    """Create a role that may log in; return False if there is one of that name.

    Args:
        context: the call's context.
        username: of the role.
        arguments: createdb, createroles, superuser, login (True), inherit (True), replication,
            connlimit, rolepassword (plain text or a stored form), encrypted ("scram-sha-256",
            "md5"; default: the server's method), valid_until, groups; and those of the connection:
            user, host, port, maintenance_db, password, runas.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
    """
    return _create(context, username, True, arguments)


@function(fails="bool")
def user_update(context: Context, /, username: str, **arguments: Any) -> bool:
    """Change the given attributes of a role; arguments as of user_create.

    Raises:
        CommandExecutionError: no such role, or the server does not answer or refuses.
    """
    return _update(context, username, arguments)


@function(fails="bool")
def user_remove(context: Context, /, username: str, **arguments: Any) -> bool:
    """Remove a role; return False if there is none.

    Raises:
        CommandExecutionError: the server does not answer, or the role owns something.
    """
    return _remove(context, username, arguments)


@function(fails="bool")
def group_create(context: Context, /, groupname: str, **arguments: Any) -> bool:
    """Create a role that may not log in; arguments as of user_create."""
    return _create(context, groupname, False, arguments)


@function(fails="bool")
def group_update(context: Context, /, groupname: str, **arguments: Any) -> bool:
    """Change the given attributes of a role; arguments as of user_create."""
    return _update(context, groupname, arguments)


@function(fails="bool")
def group_remove(context: Context, /, groupname: str, **arguments: Any) -> bool:
    """Remove a role; return False if there is none."""
    return _remove(context, groupname, arguments)

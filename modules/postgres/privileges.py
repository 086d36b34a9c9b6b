"""postgres.privileges_* and has_privileges: what roles may do with the objects of a server."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Set

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, field
from catena.core.plugins import function
from catena.core.suggest import unknown
from catena.modules.postgres.psql import PsqlConnection, act, ask, connection
from catena.modules.shared.arguments import listed, take, truth


@dataclass(frozen=True)
class _Kind:
    """A kind of objects that have privileges."""

    #: Letter of the kind for acldefault().
    letter: str
    privileges: FrozenSet[str]
    #: FROM and WHERE that select the objects `o` with name :'name', and their columns.
    source: str
    owner: str
    acl: str
    #: SQL text of the object's name in GRANT.
    shown: str
    #: FROM and WHERE for all objects of the schema :'prepend'.
    whole_schema: str = ""


_IN_SCHEMA = """FROM pg_catalog.pg_class o
 JOIN pg_catalog.pg_namespace n ON n.oid = o.relnamespace WHERE n.nspname = :'prepend'"""
_TABLES = f"{_IN_SCHEMA} AND o.relkind IN ('r', 'v', 'm', 'f', 'p')"
_SEQUENCES = f"{_IN_SCHEMA} AND o.relkind = 'S'"
_FUNCTIONS = """FROM pg_catalog.pg_proc o
 JOIN pg_catalog.pg_namespace n ON n.oid = o.pronamespace WHERE n.nspname = :'prepend'"""
_IDENT = "quote_ident(o.{})"

#: By object type, as Salt names it.
_KINDS: Mapping[str, _Kind] = {
    "table": _Kind(
        "r",
        frozenset(
            "INSERT SELECT UPDATE DELETE TRUNCATE REFERENCES TRIGGER MAINTAIN".split()
        ),
        f"{_TABLES} AND o.relname = :'name'",
        "o.relowner", "o.relacl", "o.oid::regclass::text", _TABLES,
    ),
    "sequence": _Kind(
        "s",
        frozenset(("SELECT", "UPDATE", "USAGE")),
        f"{_SEQUENCES} AND o.relname = :'name'",
        "o.relowner", "o.relacl", "o.oid::regclass::text", _SEQUENCES,
    ),
    "function": _Kind(
        "f",
        frozenset(("EXECUTE",)),
        f"{_FUNCTIONS} AND (o.oid::regprocedure::text = :'name' OR"
        " o.oid::regprocedure::text = quote_ident(n.nspname) || '.' || :'name')",
        "o.proowner", "o.proacl", "o.oid::regprocedure::text", _FUNCTIONS,
    ),
    "schema": _Kind(
        "n",
        frozenset(("USAGE", "CREATE")),
        "FROM pg_catalog.pg_namespace o WHERE o.nspname = :'name'",
        "o.nspowner", "o.nspacl", _IDENT.format("nspname"),
    ),
    "tablespace": _Kind(
        "t",
        frozenset(("CREATE",)),
        "FROM pg_catalog.pg_tablespace o WHERE o.spcname = :'name'",
        "o.spcowner", "o.spcacl", _IDENT.format("spcname"),
    ),
    "language": _Kind(
        "l",
        frozenset(("USAGE",)),
        "FROM pg_catalog.pg_language o WHERE o.lanname = :'name'",
        "o.lanowner", "o.lanacl", _IDENT.format("lanname"),
    ),
    "database": _Kind(
        "d",
        frozenset(("CREATE", "TEMPORARY", "CONNECT")),
        "FROM pg_catalog.pg_database o WHERE o.datname = :'name'",
        "o.datdba", "o.datacl", _IDENT.format("datname"),
    ),
}  # fmt: skip
_GROUP = "group"
_MEMBERS = """SELECT r.rolname AS "rolname", bool_or(m.admin_option) AS "admin_option"
 FROM pg_catalog.pg_auth_members m JOIN pg_catalog.pg_roles r ON m.member = r.oid
 JOIN pg_catalog.pg_roles g ON g.oid = m.roleid WHERE g.rolname = :'name' GROUP BY r.rolname"""


@dataclass(frozen=True)
class PrivilegeOptions:
    """Arguments of the functions of privileges, with Salt's names."""

    #: Names separated by commas, or a list.
    privileges: Any = None
    grant_option: Optional[bool] = None
    #: Schema of a table, sequence or function.
    prepend: str = "public"


@dataclass(frozen=True)
class _Object:
    """The access list of one object."""

    shown: str
    owner: str
    #: All privileges that an owner has by default, on this version of the server.
    everything: FrozenSet[str] = frozenset()
    #: Role -> privilege -> whether it may be passed on.
    granted: Dict[str, Dict[str, bool]] = field(default_factory=dict)


def _kind(object_type: str) -> _Kind:
    """Return a kind of objects.

    Raises:
        UsageError: no such kind.
    """
    name = str(object_type).lower()
    if name not in _KINDS:
        told = unknown("object_type", name, [*_KINDS, _GROUP])
        raise UsageError(f"Invalid object_type: {name[:40]} provided; {told}")
    return _KINDS[name]


def _is_group(object_type: str) -> bool:
    return str(object_type).lower() == _GROUP


def _wanted(kind: _Kind, object_type: str, privileges: Any) -> List[str]:
    """Return the names of privileges, in capitals.

    Raises:
        UsageError: the kind of object has no such privilege, or none is given.
    """
    found = [str(one).strip().upper() for one in listed(privileges)]
    found = ["TEMPORARY" if one == "TEMP" else one for one in found]
    if not found or not set(found) <= {*kind.privileges, "ALL"}:
        given = ", ".join(found)[:80] or "none"
        raise UsageError(
            f"Invalid privilege(s): {given} provided for object {object_type}; it has "
            f"{', '.join(sorted(kind.privileges))} and ALL"
        )
    return found


def _objects(
    context: Context, server: PsqlConnection, kind: _Kind, name: str, prepend: str
) -> List[_Object]:
    """Return the objects with their access lists, one or all of a schema."""
    source = kind.source
    if name.upper() == "ALL" and kind.whole_schema:
        source = kind.whole_schema
    default = f"acldefault('{kind.letter}', {kind.owner})"
    query = f"""SELECT s.shown, s.owner, x.kind, COALESCE(g.rolname, 'public') AS role,
 x.privilege_type AS privilege, x.is_grantable AS option
 FROM (SELECT {kind.shown} AS shown, pg_get_userbyid({kind.owner}) AS owner,
   {kind.owner} AS id, {kind.acl} AS acl, {default} AS most {source}) s
 LEFT JOIN LATERAL (SELECT 'granted' AS kind, e.* FROM aclexplode(s.acl) e
   UNION ALL SELECT 'default', e.* FROM aclexplode(s.most) e WHERE e.grantee = s.id) x ON true
 LEFT JOIN pg_catalog.pg_roles g ON g.oid = x.grantee ORDER BY 1"""
    found: Dict[str, _Object] = {}
    most: Dict[str, Set[str]] = {}
    for row in ask(context, server, query, {"name": name, "prepend": prepend}):
        one = found.setdefault(row["shown"], _Object(row["shown"], row["owner"]))
        if row["kind"] == "default":
            most.setdefault(one.shown, set()).add(row["privilege"])
        elif row["kind"] == "granted":
            held = one.granted.setdefault(row["role"], {})
            held[row["privilege"]] = row["option"] == "t" or held.get(row["privilege"], False)
    return [
        _Object(one.shown, one.owner, frozenset(most.get(one.shown, ())), one.granted)
        for one in found.values()
    ]


@function(reads=True)
def privileges_list(
    context: Context, /, name: str, object_type: str, **arguments: Any
) -> Dict[str, Any]:
    """Return the granted privileges of an object.

    Args:
        context: the call's context.
        name: of the object; ALL stands for all of a schema.
        object_type: table (also a view), sequence, function, schema, tablespace, language,
            database or group.
        arguments: prepend (schema, "public"); user, host, port, maintenance_db (the database),
            password, runas.

    Returns:
        {role: {privilege: whether the role may grant it to others}}; for a group {member: whether
        it may add members}; for ALL what holds for each object.
    """
    server, rest = connection(context, arguments)
    options = take(PrivilegeOptions, rest, "postgres.privileges_list")
    if _is_group(object_type):
        rows = ask(context, server, _MEMBERS, {"name": name})
        return {row["rolname"]: row["admin_option"] == "t" for row in rows}
    found = _objects(context, server, _kind(object_type), str(name), options.prepend)
    if not found:
        return {}
    merged = found[0].granted
    for one in found[1:]:
        merged = {
            role: {
                privilege: option and one.granted[role][privilege]
                for privilege, option in held.items()
                if privilege in one.granted[role]
            }
            for role, held in merged.items()
            if role in one.granted
        }
    return {role: held for role, held in merged.items() if held}


def _has(one: _Object, role: str, wanted: List[str], grant_option: bool) -> bool:
    """Return whether a role holds all wanted privileges of an object; its owner always does."""
    if role == one.owner:
        return True
    held = one.granted.get(role, {})
    names = one.everything if "ALL" in wanted else wanted
    return all(privilege in held and (held[privilege] or not grant_option) for privilege in names)


def _check_group(privileges: Any) -> None:
    if privileges:
        raise UsageError("The privileges option should not be set for object_type group")


@function(reads=True)
def has_privileges(
    context: Context, /, name: str, object_name: str, object_type: str, **arguments: Any
) -> bool:
    """Return whether a role holds privileges of an object.

    Args:
        context: the call's context.
        name: of the role.
        object_name: as of privileges_list.
        object_type: as of privileges_list.
        arguments: privileges (names separated by commas, or a list), grant_option (False), and
            those of privileges_list.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
        UsageError: no such kind of object, or it has no such privilege.
    """
    server, rest = connection(context, arguments)
    options = take(PrivilegeOptions, rest, "postgres.has_privileges")
    grant_option = truth(options.grant_option)
    if _is_group(object_type):
        _check_group(options.privileges)
        members = privileges_list(context, object_name, object_type, **arguments)
        return name in members and (members[name] or not grant_option)
    kind = _kind(object_type)
    wanted = _wanted(kind, object_type, options.privileges)
    found = _objects(context, server, kind, str(object_name), options.prepend)
    if not found:
        return str(object_name).upper() == "ALL" and bool(kind.whole_schema)
    return all(_has(one, str(name), wanted, grant_option) for one in found)


@function(reads=True)
def has_any_privilege(
    context: Context, /, name: str, object_name: str, object_type: str, **arguments: Any
) -> bool:
    """Return whether any of some privileges was granted to a role; see has_privileges."""
    server, rest = connection(context, arguments)
    options = take(PrivilegeOptions, rest, "postgres.has_any_privilege")
    if _is_group(object_type):
        _check_group(options.privileges)
        return name in privileges_list(context, object_name, object_type, **arguments)
    kind = _kind(object_type)
    wanted = _wanted(kind, object_type, options.privileges)
    names = kind.privileges if "ALL" in wanted else frozenset(wanted)
    found = _objects(context, server, kind, str(object_name), options.prepend)
    return any(names & set(one.granted.get(str(name), {})) for one in found)


def _change(
    context: Context, form: str, call: Mapping[str, Any], arguments: Mapping[str, Any]
) -> None:
    """Run GRANT or REVOKE for each object.

    Args:
        context: the call's context.
        form: format() of PostgreSQL with the object's name and the role; {} is the privileges.
        call: name, object_name, object_type.
        arguments: of the function.
    """
    server, rest = connection(context, arguments)
    options = take(PrivilegeOptions, rest, "postgres.privileges")
    kind = _kind(call["object_type"])
    wanted = _wanted(kind, call["object_type"], options.privileges)
    source = kind.source
    if str(call["object_name"]).upper() == "ALL" and kind.whole_schema:
        source = kind.whole_schema
    words = "ALL" if "ALL" in wanted else ", ".join(wanted)
    type_ = str(call["object_type"]).upper()
    text = form.replace("{}", f"{words} ON {type_}")
    values = {
        "name": call["object_name"],
        "prepend": options.prepend,
        "role": call["name"],
    }
    act(
        context,
        server,
        [f"SELECT format('{text}', {kind.shown}, :'role') {source} \\gexec"],
        values,
    )


@function(fails="bool")
def privileges_grant(
    context: Context, /, name: str, object_name: str, object_type: str, **arguments: Any
) -> bool:
    """Grant privileges of an object to a role; return False if the role holds them.

    Arguments are those of has_privileges.

    Raises:
        CommandExecutionError: the server does not answer, has no such object, or refuses.
        UsageError: as has_privileges.
    """
    if has_privileges(context, name, object_name, object_type, **arguments):
        return False
    server, rest = connection(context, arguments)
    options = take(PrivilegeOptions, rest, "postgres.privileges_grant")
    option = truth(options.grant_option)
    if _is_group(object_type):
        suffix = " WITH ADMIN OPTION" if option else ""
        values = {"group": object_name, "role": name}
        act(context, server, [f'GRANT :"group" TO :"role"{suffix}'], values)
        return True
    _need_object(context, server, object_name, object_type, options.prepend)
    suffix = " WITH GRANT OPTION" if option else ""
    call = {"name": name, "object_name": object_name, "object_type": object_type}
    _change(context, f"GRANT {{}} %s TO %I{suffix}", call, arguments)
    return True


def _need_object(
    context: Context, server: PsqlConnection, name: str, object_type: str, prepend: str
) -> None:
    """Check that there is something whose privileges can be granted.

    Raises:
        CommandExecutionError: there is no such object.
    """
    if not _objects(context, server, _kind(object_type), str(name), prepend):
        raise CommandExecutionError(
            f"there is no {str(object_type).lower()} {name} in the database "
            f"{server.maintenance_db}"
        )


@function(fails="bool")
def privileges_revoke(
    context: Context, /, name: str, object_name: str, object_type: str, **arguments: Any
) -> bool:
    """Take privileges of an object from a role; return False if it holds none of them.

    Arguments are those of has_privileges.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
        UsageError: as has_privileges.
    """
    if not has_any_privilege(context, name, object_name, object_type, **arguments):
        return False
    if _is_group(object_type):
        server, _ = connection(context, arguments)
        values = {"group": object_name, "role": name}
        act(context, server, ['REVOKE :"group" FROM :"role"'], values)
        return True
    call = {"name": name, "object_name": object_name, "object_type": object_type}
    _change(context, "REVOKE {} %s FROM %I", call, arguments)
    return True

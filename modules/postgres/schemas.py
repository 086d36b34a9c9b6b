"""postgres.schema_*, language_* and tablespace_*."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.postgres.databases import only_connection
from catena.modules.postgres.psql import PsqlConnection, act, ask, connection, elsewhere
from catena.modules.shared.arguments import mapped, take

_SCHEMAS = """SELECT n.nspname AS "name", n.nspacl AS "acl", r.rolname AS "owner"
 FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner"""
_LANGUAGES = 'SELECT lanname AS "Name" FROM pg_catalog.pg_language'
_TABLESPACES = """SELECT t.spcname AS "Name", r.rolname AS "Owner", t.spcacl AS "ACL",
 t.spcoptions AS "Opts", pg_tablespace_location(t.oid) AS "Location"
 FROM pg_catalog.pg_tablespace t JOIN pg_catalog.pg_roles r ON r.oid = t.spcowner"""
_OPTION = re.compile(r"[a-z][a-z_]*\Z")
_NUMBER = re.compile(r"\d+(\.\d+)?\Z")


@dataclass(frozen=True)
class _SchemaConnection:
    """Arguments of the functions of schemas, which have names of their own in Salt."""

    #: System user that runs psql.
    user: Optional[str] = None
    db_user: Optional[str] = None
    db_password: Optional[str] = None
    db_host: Optional[str] = None
    db_port: Any = None
    owner: Optional[str] = None


def _in_database(
    context: Context, dbname: str, arguments: Mapping[str, Any], what: str
) -> PsqlConnection:
    given = take(_SchemaConnection, arguments, what)
    server, _ = connection(
        context,
        {
            "runas": given.user,
            "user": given.db_user,
            "password": given.db_password,
            "host": given.db_host,
            "port": given.db_port,
        },
    )
    return elsewhere(server, dbname)


@function(reads=True)
def schema_list(context: Context, /, dbname: str, **arguments: Any) -> Dict[str, Dict[str, str]]:
    """Return acl and owner of each schema of a database.

    Args:
        context: the call's context.
        dbname: of the database.
        arguments: user (system user that runs psql), db_user, db_password, db_host, db_port.
    """
    server = _in_database(context, dbname, arguments, "postgres.schema_list")
    rows = ask(context, server, _SCHEMAS)
    return {row["name"]: {"acl": row["acl"], "owner": row["owner"]} for row in rows}


@function(reads=True)
def schema_get(
    context: Context, /, dbname: str, name: str, **arguments: Any
) -> Optional[Dict[str, str]]:
    """Return acl and owner of a schema, or None; arguments as of schema_list."""
    return schema_list(context, dbname, **arguments).get(str(name))


@function(reads=True)
def schema_exists(context: Context, /, dbname: str, name: str, **arguments: Any) -> bool:
    """Return whether a database has a schema; arguments as of schema_list."""
    return schema_get(context, dbname, name, **arguments) is not None


@function(fails="bool")
def schema_create(context: Context, /, dbname: str, name: str, **arguments: Any) -> bool:
    """Create a schema; return False if there is one of that name.

    Args:
        context: the call's context.
        dbname: of the database.
        name: of the schema.
        arguments: owner, and those of schema_list.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
    """
    server = _in_database(context, dbname, arguments, "postgres.schema_create")
    if name in {row["name"] for row in ask(context, server, _SCHEMAS)}:
        return False
    values, words = {"name": name}, ""
    if arguments.get("owner"):
        values["owner"], words = arguments["owner"], ' AUTHORIZATION :"owner"'
    act(context, server, [f'CREATE SCHEMA :"name"{words}'], values)
    return True


@function(fails="bool")
def schema_remove(context: Context, /, dbname: str, name: str, **arguments: Any) -> bool:
    """Remove an empty schema; return False if there is none; arguments as of schema_list.

    Raises:
        CommandExecutionError: the server does not answer, or the schema is not empty.
    """
    server = _in_database(context, dbname, arguments, "postgres.schema_remove")
    if name not in {row["name"] for row in ask(context, server, _SCHEMAS)}:
        return False
    act(context, server, ['DROP SCHEMA :"name"'], {"name": name})
    return True


@function(reads=True)
def language_list(context: Context, /, maintenance_db: str, **arguments: Any) -> Dict[str, str]:
    """Return the procedural languages of a database, each name as key and value.

    Args:
        context: the call's context.
        maintenance_db: the database.
        arguments: user, host, port, password, runas.
    """
    server = only_connection(context, arguments, "postgres.language_list")
    rows = ask(context, elsewhere(server, maintenance_db), _LANGUAGES)
    return {row["Name"]: row["Name"] for row in rows}


@function(reads=True)
def language_exists(context: Context, /, name: str, maintenance_db: str, **arguments: Any) -> bool:
    """Return whether a database has a language; arguments as of language_list."""
    return str(name) in language_list(context, maintenance_db, **arguments)


@function(fails="bool")
def language_create(context: Context, /, name: str, maintenance_db: str, **arguments: Any) -> bool:
    """Add a language to a database; return False if it has it; arguments as of language_list.

    Raises:
        CommandExecutionError: the server does not answer, or has no such language.
    """
    if language_exists(context, name, maintenance_db, **arguments):
        return False
    server = only_connection(context, arguments, "postgres.language_create")
    server = elsewhere(server, maintenance_db)
    act(context, server, ['CREATE LANGUAGE :"name"'], {"name": name})
    return True


@function(fails="bool")
def language_remove(context: Context, /, name: str, maintenance_db: str, **arguments: Any) -> bool:
    """Remove a language from a database; return False if it lacks it.

    Args:
        context: the call's context.
        name: of the language; that of an extension is removed with the extension.
        maintenance_db: the database.
        arguments: as of language_list.

    Raises:
        CommandExecutionError: the server does not answer, or functions use the language.
    """
    if not language_exists(context, name, maintenance_db, **arguments):
        return False
    server = only_connection(context, arguments, "postgres.language_remove")
    server = elsewhere(server, maintenance_db)
    owners = ask(
        context,
        server,
        "SELECT count(*) AS n FROM pg_catalog.pg_extension WHERE extname = :'name'",
        {"name": name},
    )
    kind = "LANGUAGE" if owners[0]["n"] == "0" else "EXTENSION"
    act(context, server, [f'DROP {kind} :"name"'], {"name": name})
    return True


@function(reads=True)
def tablespace_list(context: Context, /, **arguments: Any) -> Dict[str, Dict[str, str]]:
    """Return Owner, ACL, Opts and Location of each tablespace of a server.

    Args:
        context: the call's context.
        arguments: user, host, port, maintenance_db, password, runas.
    """
    server = only_connection(context, arguments, "postgres.tablespace_list")
    found = {}
    for row in ask(context, server, _TABLESPACES):
        found[row.pop("Name")] = row
    return found


@function(reads=True)
def tablespace_exists(context: Context, /, name: str, **arguments: Any) -> bool:
    """Return whether a tablespace exists; arguments as of tablespace_list."""
    return str(name) in tablespace_list(context, **arguments)


def _settings(options: Any) -> List[str]:
    """Return options of a tablespace as SQL.

    Raises:
        UsageError: one is no name with a number.
    """
    found = []
    for key, value in mapped(options).items():
        if not _OPTION.match(str(key)) or not _NUMBER.match(str(value)):
            raise UsageError(f"options: {str(key)[:40]} needs a number, not {str(value)[:40]!r}")
        found.append(f"{key} = {value}")
    return found


@function(fails="bool")
def tablespace_create(
    context: Context,
    /,
    name: str,
    location: str,
    options: Any = None,
    owner: Optional[str] = None,
    **arguments: Any,
) -> bool:
    """Create a tablespace.

    Args:
        context: the call's context.
        name: of the tablespace.
        location: an empty folder that belongs to the server's system user.
        options: {seq_page_cost: 1.0}.
        owner: a role.
        arguments: those of the connection, as of tablespace_list.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
        UsageError: an option is no number.
    """
    server = only_connection(context, arguments, "postgres.tablespace_create")
    values = {"name": name, "location": location}
    words = 'CREATE TABLESPACE :"name"'
    if owner:
        values["owner"], words = owner, f'{words} OWNER :"owner"'
    words += " LOCATION :'location'"
    settings = _settings(options)
    if settings:
        words += f" WITH ({', '.join(settings)})"
    act(context, server, [words], values, whole=False)
    return True


@dataclass(frozen=True)
class _TablespaceChanges:
    """Arguments of tablespace_alter."""

    new_name: Optional[str] = None
    new_owner: Optional[str] = None
    set_option: Any = None
    reset_option: Optional[str] = None


@function(fails="bool")
def tablespace_alter(context: Context, /, name: str, **arguments: Any) -> bool:
    """Change a tablespace.

    Args:
        context: the call's context.
        name: of the tablespace.
        arguments: new_name, new_owner, set_option ({option: number}), reset_option (a name); and
            those of the connection, as of tablespace_list.

    Raises:
        CommandExecutionError: the server does not answer, or refuses; nothing was changed.
        UsageError: an option is no number.
    """
    server, rest = connection(context, arguments)
    wanted = take(_TablespaceChanges, rest, "postgres.tablespace_alter")
    values = {"name": name}
    statements = []
    if wanted.new_owner:
        values["owner"] = wanted.new_owner
        statements.append('ALTER TABLESPACE :"name" OWNER TO :"owner"')
    settings = _settings(wanted.set_option)
    if settings:
        statements.append(f'ALTER TABLESPACE :"name" SET ({", ".join(settings)})')
    if wanted.reset_option:
        if not _OPTION.match(str(wanted.reset_option)):
            raise UsageError(f"reset_option: {wanted.reset_option!r} is no option")
        statements.append(f'ALTER TABLESPACE :"name" RESET ({wanted.reset_option})')
    if wanted.new_name:
        values["new_name"] = wanted.new_name
        statements.append('ALTER TABLESPACE :"name" RENAME TO :"new_name"')
    if statements:
        act(context, server, statements, values)
    return True


@function(fails="bool")
def tablespace_remove(context: Context, /, name: str, **arguments: Any) -> bool:
    """Remove an empty tablespace; arguments as of tablespace_list.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
    """
    server = only_connection(context, arguments, "postgres.tablespace_remove")
    act(context, server, ['DROP TABLESPACE :"name"'], {"name": name}, whole=False)
    return True

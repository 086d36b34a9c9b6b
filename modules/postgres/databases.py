"""postgres.db_*, version, psql_query and owner_to."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.frozen import dataclass, fields
from catena.core.plugins import function
from catena.modules.postgres.psql import (
    PsqlConnection,
    Rows,
    act,
    ask,
    connection,
    elsewhere,
    rows_of,
)
from catena.modules.shared.arguments import take, truth

_LIST = """SELECT d.datname AS "Name", r.rolname AS "Owner",
 pg_encoding_to_char(d.encoding) AS "Encoding", d.datcollate AS "Collate", d.datctype AS "Ctype",
 d.datacl AS "Access privileges", t.spcname AS "Tablespace"
 FROM pg_catalog.pg_database d JOIN pg_catalog.pg_roles r ON r.oid = d.datdba
 JOIN pg_catalog.pg_tablespace t ON t.oid = d.dattablespace"""
#: First version (server_version_num) with DROP DATABASE … WITH (FORCE).
_FORCES = 130000
#: ALTER statements for everything in a database that has an owner of its own.
_OWNED = (
    """SELECT format('ALTER SCHEMA %I OWNER TO %I', nspname, :'owner')
 FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
 \\gexec""",
    """SELECT format('ALTER %s %s OWNER TO %I', CASE c.relkind WHEN 'S' THEN 'SEQUENCE'
 WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'f' THEN 'FOREIGN TABLE'
 ELSE 'TABLE' END, c.oid::regclass, :'owner')
 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
 AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
 AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_class'::regclass
   AND d.objid = c.oid AND d.deptype IN ('a', 'i', 'e') AND (c.relkind = 'S' OR d.deptype = 'e'))
 \\gexec""",
    """SELECT format('ALTER ROUTINE %s OWNER TO %I', p.oid::regprocedure, :'owner')
 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
 WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
 AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_proc'::regclass
   AND d.objid = p.oid AND d.deptype = 'e')
 \\gexec""",
)


@dataclass(frozen=True)
class _Nothing:
    """A function with no arguments but those of the connection."""


@dataclass(frozen=True)
class NewDatabase:
    """Attributes of a new database, with Salt's names."""

    tablespace: Optional[str] = None
    encoding: Optional[str] = None
    lc_collate: Optional[str] = None
    lc_ctype: Optional[str] = None
    owner: Optional[str] = None
    template: Optional[str] = None


@dataclass(frozen=True)
class AlterOptions:
    """Attributes of a database that can be changed."""

    tablespace: Optional[str] = None
    owner: Optional[str] = None
    #: Change the owner of everything in the database, too.
    owner_recurse: bool = False


#: By attribute of a new database: the clause of CREATE DATABASE.
_CLAUSES: Mapping[str, str] = {
    "tablespace": 'TABLESPACE = :"tablespace"',
    "owner": 'OWNER = :"owner"',
    "template": 'TEMPLATE = :"template"',
    "encoding": "ENCODING = :'encoding'",
    "lc_collate": "LC_COLLATE = :'lc_collate'",
    "lc_ctype": "LC_CTYPE = :'lc_ctype'",
}


def only_connection(context: Context, arguments: Mapping[str, Any], what: str) -> PsqlConnection:
    """Return the connection of a function that has no other arguments.

    Raises:
        UsageError: it was given another argument.
    """
    server, rest = connection(context, arguments)
    take(_Nothing, rest, what)
    return server


@function(reads=True)
def version(context: Context, /, **arguments: Any) -> str:
    """Return the version of a server.

    Args:
        context: the call's context.
        arguments: user, host, port, maintenance_db, password, runas.
    """
    server = only_connection(context, arguments, "postgres.version")
    return ask(context, server, "SELECT current_setting('server_version') AS v")[0]["v"]


@dataclass(frozen=True)
class _QueryOptions:
    """Arguments of psql_query."""

    write: bool = False


@function()
def psql_query(context: Context, /, query: str, **arguments: Any) -> Rows:
    """Return the rows of an SQL query, each {column: text}; null is "".

    Args:
        context: the call's context.
        query: one query; one that changes something needs RETURNING in a WITH clause.
        arguments: write (False) opens a transaction that may write; user, host, port,
            maintenance_db, password, runas.

    Raises:
        CommandExecutionError: the server does not answer, or refuses the query.
    """
    server, rest = connection(context, arguments)
    options = take(_QueryOptions, rest, "postgres.psql_query")
    return rows_of(context, server, str(query), write=truth(options.write))


@function(reads=True)
def db_list(context: Context, /, **arguments: Any) -> Dict[str, Dict[str, str]]:
    """Return the databases of a server by name; arguments as of version."""
    server = only_connection(context, arguments, "postgres.db_list")
    found = {}
    for row in ask(context, server, _LIST):
        found[row.pop("Name")] = row
    return found


@function(reads=True)
def db_exists(context: Context, /, name: str, **arguments: Any) -> bool:
    """Return whether a database exists; arguments as of version."""
    return str(name) in db_list(context, **arguments)


@function(fails="bool")
def db_create(context: Context, /, name: str, **arguments: Any) -> bool:
    """Create a database.

    Args:
        context: the call's context.
        name: of the database.
        arguments: tablespace, encoding, lc_collate, lc_ctype, owner, template; and those of the
            connection, as of version.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
    """
    server, rest = connection(context, arguments)
    options = take(NewDatabase, rest, "postgres.db_create")
    given = {one.name: getattr(options, one.name) for one in fields(NewDatabase)}
    values = {key: value for key, value in given.items() if value not in (None, "")}
    clauses = [clause for key, clause in _CLAUSES.items() if key in values]
    words = f" WITH {' '.join(clauses)}" if clauses else ""
    act(
        context,
        server,
        [f'CREATE DATABASE :"name"{words}'],
        {"name": name, **values},
        whole=False,
    )
    return True


@function(fails="bool")
def db_alter(context: Context, /, name: str, **arguments: Any) -> bool:
    """Change the owner or the tablespace of a database.

    Args:
        context: the call's context.
        name: of the database.
        arguments: owner, owner_recurse (False), tablespace; and those of the connection.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
    """
    server, rest = connection(context, arguments)
    options = take(AlterOptions, rest, "postgres.db_alter")
    if options.owner and truth(options.owner_recurse):
        owner_to(context, name, options.owner, **arguments_of(arguments))
    statements: List[str] = []
    values = {"name": name}
    if options.owner and not truth(options.owner_recurse):
        statements.append('ALTER DATABASE :"name" OWNER TO :"owner"')
        values["owner"] = options.owner
    if options.tablespace:
        statements.append('ALTER DATABASE :"name" SET TABLESPACE :"tablespace"')
        values["tablespace"] = options.tablespace
    if statements:
        act(context, server, statements, values, whole=False)
    return True


def arguments_of(arguments: Mapping[str, Any]) -> Dict[str, Any]:
    """Return those arguments that belong to the connection."""
    names = {one.name for one in fields(PsqlConnection)}
    return {key: value for key, value in arguments.items() if key in names}


@function(fails="bool")
def db_remove(context: Context, /, name: str, **arguments: Any) -> bool:
    """Remove a database and end the sessions in it; arguments as of version.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
    """
    server = only_connection(context, arguments, "postgres.db_remove")
    number = ask(context, server, "SELECT current_setting('server_version_num') AS n")[0]["n"]
    if int(number) >= _FORCES:
        statements = ['DROP DATABASE :"name" WITH (FORCE)']
    else:
        statements = [
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = :'name' AND pid <> pg_backend_pid()",
            'DROP DATABASE :"name"',
        ]
    act(context, server, statements, {"name": name}, whole=False)
    return True


@function(fails="bool")
def owner_to(context: Context, /, dbname: str, ownername: str, **arguments: Any) -> bool:
    """Make a role the owner of a database and of everything in it.

    Args:
        context: the call's context.
        dbname: of the database.
        ownername: of the role.
        arguments: those of the connection, as of version.

    Raises:
        CommandExecutionError: the server does not answer, or refuses; nothing was changed.
    """
    server = only_connection(context, arguments, "postgres.owner_to")
    act(
        context,
        elsewhere(server, dbname),
        ['ALTER DATABASE :"name" OWNER TO :"owner"', *_OWNED],
        {"name": dbname, "owner": ownername},
    )
    return True

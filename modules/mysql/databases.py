"""mysql.db_*, query, version, status and variables."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.mysql.client import (
    MysqlConnection,
    act,
    ask,
    connection,
    identifier,
    literal,
    using,
    word,
)
from catena.modules.shared.arguments import take

#: First words of statements that return rows.
_SELECTS = ("SELECT", "SHOW", "DESC")
_QUICK = 0.2


@dataclass(frozen=True)
class _NoOptions:
    """A function with no arguments but those of the connection."""

    #: Accepted for Salt's sake; the client has no such flags.
    client_flags: Any = None


def only_connection(context: Context, arguments: Mapping[str, Any], what: str) -> MysqlConnection:
    """Return the connection of a function that has no other arguments.

    Raises:
        UsageError: it was given another argument.
    """
    server, rest = connection(context, arguments)
    take(_NoOptions, rest, what)
    return server


@function(reads=True)
def version(context: Context, /, **arguments: Any) -> str:
    """Return the version of a server.

    Args:
        context: the call's context.
        arguments: connection_host, connection_port, connection_user, connection_pass,
            connection_db, connection_unix_socket, connection_default_file, connection_charset;
            each is also a key of the configuration (mysql.host, …).
    """
    server = only_connection(context, arguments, "mysql.version")
    return ask(context, server, "SELECT VERSION() AS v")[0]["v"]


@function()
def query(context: Context, /, database: str, query: str, **arguments: Any) -> Dict[str, Any]:
    """Run one SQL statement and return its rows, or the number of rows that it changed.

    Args:
        context: the call's context.
        database: the current database.
        query: one statement.
        arguments: those of the connection, as of version.

    Returns:
        {columns, results, rows returned, query time}, or {rows affected, query time}; a value is
        text, or None.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
    """
    server = using(only_connection(context, arguments, "mysql.query"), database)
    start = time.monotonic()
    found = act(context, server, [query], quoted=False)
    seconds = time.monotonic() - start
    human = f"{seconds * 1000:.1f}ms" if seconds < _QUICK else f"{seconds:.2f}s"
    told: Dict[str, Any] = {"query time": {"human": human, "raw": f"{seconds:.5f}"}}
    if not str(query).strip().upper().startswith(_SELECTS):
        return {**told, "rows affected": max(found.affected, 0)}
    return {
        **told,
        "rows returned": len(found.rows),
        "columns": list(found.columns),
        "results": [list(row) for row in found.rows],
    }


@function(reads=True)
def db_list(context: Context, /, **arguments: Any) -> List[str]:
    """Return the names of the databases of a server; arguments as of version."""
    server = only_connection(context, arguments, "mysql.db_list")
    return [row["Database"] for row in ask(context, server, "SHOW DATABASES")]


@function(reads=True)
def db_get(context: Context, /, name: str, **arguments: Any) -> Dict[str, str]:
    """Return character_set and collate of a database, {} if there is none."""
    server = only_connection(context, arguments, "mysql.db_get")
    rows = ask(
        context,
        server,
        "SELECT SCHEMA_NAME AS name, DEFAULT_CHARACTER_SET_NAME AS charset,"
        " DEFAULT_COLLATION_NAME AS collation FROM INFORMATION_SCHEMA.SCHEMATA",
    )
    for row in rows:
        if row["name"] == str(name):
            return {"character_set": row["charset"], "collate": row["collation"]}
    return {}


@function(reads=True)
def db_exists(context: Context, /, name: str, **arguments: Any) -> bool:
    """Return whether a database exists; arguments as of version."""
    return bool(db_get(context, name, **arguments))


@function(reads=True)
def db_tables(context: Context, /, name: str, **arguments: Any) -> List[str]:
    """Return the names of the tables of a database; arguments as of version."""
    server = only_connection(context, arguments, "mysql.db_tables")
    rows = ask(
        context,
        server,
        "SELECT TABLE_NAME AS name FROM INFORMATION_SCHEMA.TABLES"
        f" WHERE TABLE_SCHEMA = {literal(name)} ORDER BY 1",
    )
    return [row["name"] for row in rows]


def _clauses(character_set: Optional[str], collate: Optional[str]) -> str:
    found = ""
    if character_set:
        found += f" CHARACTER SET {word(character_set, 'character_set')}"
    if collate:
        found += f" COLLATE {word(collate, 'collate')}"
    return found


@function(fails="bool")
def db_create(
    context: Context,
    /,
    name: str,
    character_set: Optional[str] = None,
    collate: Optional[str] = None,
    **arguments: Any,
) -> bool:
    """Create a database; return False if there is one of that name; arguments as of version.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
        UsageError: the name, the character set or the collation can't be one.
    """
    if db_exists(context, name, **arguments):
        return False
    server = only_connection(context, arguments, "mysql.db_create")
    clauses = _clauses(character_set, collate)
    act(context, server, [f"CREATE DATABASE {identifier(name)}{clauses}"])
    return True


@function(fails="bool")
def alter_db(
    context: Context,
    /,
    name: str,
    character_set: Optional[str] = None,
    collate: Optional[str] = None,
    **arguments: Any,
) -> bool:
    """Change the defaults of a database; arguments as of version.

    Raises:
        as db_create.
    """
    server = only_connection(context, arguments, "mysql.alter_db")
    clauses = _clauses(character_set, collate)
    if clauses:
        act(context, server, [f"ALTER DATABASE {identifier(name)}{clauses}"])
    return True


@function(fails="bool")
def db_remove(context: Context, /, name: str, **arguments: Any) -> bool:
    """Remove a database; return False if there is none, or it belongs to the server.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
    """
    if name in ("mysql", "information_schema") or not db_exists(context, name, **arguments):
        return False
    server = only_connection(context, arguments, "mysql.db_remove")
    act(context, server, [f"DROP DATABASE {identifier(name)}"])
    return True


def _pairs(context: Context, statement: str, arguments: Mapping[str, Any]) -> Dict[str, str]:
    server = only_connection(context, arguments, f"mysql: {statement}")
    rows = ask(context, server, statement)
    return {row["Variable_name"]: row["Value"] for row in rows}


@function(reads=True)
def status(context: Context, /, **arguments: Any) -> Dict[str, str]:
    """Return the counters of a server; arguments as of version."""
    return _pairs(context, "SHOW GLOBAL STATUS", arguments)


@function(reads=True)
def showvariables(context: Context, /, **arguments: Any) -> List[Dict[str, str]]:
    """Return the variables of a session as rows; arguments as of version."""
    found = _pairs(context, "SHOW VARIABLES", arguments)
    return [{"Variable_name": key, "Value": value} for key, value in found.items()]


@function(reads=True)
def showglobal(context: Context, /, **arguments: Any) -> List[Dict[str, str]]:
    """Return the global variables of a server as rows; arguments as of version."""
    found = _pairs(context, "SHOW GLOBAL VARIABLES", arguments)
    return [{"Variable_name": key, "Value": value} for key, value in found.items()]


@function(reads=True)
def processlist(context: Context, /, **arguments: Any) -> List[Dict[str, str]]:
    """Return the sessions of a server; arguments as of version."""
    server = only_connection(context, arguments, "mysql.processlist")
    return ask(context, server, "SHOW FULL PROCESSLIST")

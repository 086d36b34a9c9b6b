"""postgres_schema.*: schemas of a database of PostgreSQL."""

from __future__ import annotations

from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.postgres.psql import NoDatabaseError, remembering
from catena.states.answers import done, failed, would
from catena.states.postgres.server import ServerOptions, attempt, taken


@dataclass(frozen=True)
class SchemaOptions:
    """Arguments of postgres_schema.present besides the server."""

    #: Role that owns a schema that is created.
    owner: Optional[str] = None


def _words(server: ServerOptions) -> Dict[str, Any]:
    """Return the arguments of postgres.schema_*, which have names of their own."""
    names = ("user", "db_user", "db_password", "db_host", "db_port")
    return {key: getattr(server, key) for key in names}


def _exists(context: Context, dbname: str, name: str, server: ServerOptions) -> bool:
    """Return whether there is such a schema; in test mode also a database may be missing."""
    try:
        return bool(context.call("postgres.schema_exists", dbname, name, **_words(server)))
    except NoDatabaseError:
        if context.test:
            return False
        raise


@state(ahead=remembering)
def present(context: Context, /, name: str, dbname: str, **arguments: Any) -> StateResult:
    """Make sure that a database has a schema.

    Args:
        context: the call's context.
        name: of the schema.
        dbname: of the database.
        arguments: owner (of a schema that is created), user (system user that runs psql), db_user,
            db_password, db_host, db_port.
    """
    options, server, warnings = taken(SchemaOptions, arguments, "postgres_schema.present")
    expected = f"Schema {name} is set to be created in database {dbname}."

    def work() -> StateResult:
        if _exists(context, str(dbname), str(name), server):
            return done(f"Schema {name} already exists in database {dbname}")
        if context.test:
            return would(expected)
        words = {**_words(server), "owner": options.owner}
        try:
            context.call("postgres.schema_create", str(dbname), str(name), **words)
        except CommandExecutionError as problem:
            return failed(f"Failed to create schema {name} in database {dbname}: {problem}")
        told = f"Schema {name} has been created in database {dbname}"
        return done(told, {str(name): "Present"})

    return attempt(context, work, expected, warnings)


@state(ahead=remembering)
def absent(context: Context, /, name: str, dbname: str, **arguments: Any) -> StateResult:
    """Make sure that a database has no such schema; arguments as of present, without owner."""
    _, server, warnings = taken(None, arguments, "postgres_schema.absent")
    expected = f"Schema {name} is set to be removed from database {dbname}"

    def work() -> StateResult:
        if not _exists(context, str(dbname), str(name), server):
            return done(
                f"Schema {name} is not present in database {dbname}, so it cannot be removed"
            )
        if context.test:
            return would(expected)
        try:
            context.call("postgres.schema_remove", str(dbname), str(name), **_words(server))
        except CommandExecutionError as problem:
            return failed(f"Schema {name} failed to be removed: {problem}")
        told = f"Schema {name} has been removed from database {dbname}"
        return done(told, {str(name): "Absent"})

    return attempt(context, work, expected, warnings)

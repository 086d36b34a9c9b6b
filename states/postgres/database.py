"""postgres_database.*: databases of PostgreSQL."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.postgres.psql import remembering
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would
from catena.states.postgres.server import ServerOptions, attempt, given, taken


@dataclass(frozen=True)
class DatabaseOptions:
    """Attributes of a database, with Salt's names."""

    tablespace: Optional[str] = None
    encoding: Optional[str] = None
    lc_collate: Optional[str] = None
    lc_ctype: Optional[str] = None
    owner: Optional[str] = None
    owner_recurse: bool = False
    template: Optional[str] = None


def _is_same(left: Any, right: Any) -> bool:
    """Return whether two encodings or locales are the same: en_US.UTF-8 is en_US.utf8."""
    return str(left).lower().replace("-", "") == str(right).lower().replace("-", "")


def _is_fixed_otherwise(found: Mapping[str, str], options: DatabaseOptions) -> bool:
    """Return whether a database differs in what can't be changed."""
    wanted = (
        (options.encoding, found["Encoding"]),
        (options.lc_collate, found["Collate"]),
        (options.lc_ctype, found["Ctype"]),
    )
    return any(value and not _is_same(value, current) for value, current in wanted)


def _differences(found: Mapping[str, str], options: DatabaseOptions) -> Dict[str, str]:
    """Return the wanted owner and tablespace, if they differ."""
    wanted = {"owner": (options.owner, "Owner"), "tablespace": (options.tablespace, "Tablespace")}
    return {
        key: value for key, (value, column) in wanted.items() if value and value != found[column]
    }


@state(ahead=remembering)
def present(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a database exists with these attributes.

    Args:
        context: the call's context.
        name: of the database.
        arguments: tablespace, encoding, lc_collate, lc_ctype, owner, owner_recurse (False: with
            True, a new owner gets everything in the database), template, user (system user that
            runs psql), maintenance_db, db_user, db_password, db_host, db_port.
    """
    options, server, warnings = taken(DatabaseOptions, arguments, "postgres_database.present")
    return attempt(
        context,
        lambda: _present(context, str(name), options, server),
        f"Database {name} is set to be created",
        warnings,
    )


def _present(
    context: Context, name: str, options: DatabaseOptions, server: ServerOptions
) -> StateResult:
    words = server.words()
    found = context.call("postgres.db_list", **words).get(name)
    if found is None:
        return _create(context, name, options, words)
    if _is_fixed_otherwise(found, options):
        return failed(f"Database {name} has wrong parameters which couldn't be changed on fly.")
    lacking = _differences(found, options)
    if not lacking:
        return done(f"Database {name} is already present")
    if context.test:
        return would(f"Database {name} exists, but parameters need to be changed")
    recurse = truth(options.owner_recurse)
    try:
        context.call("postgres.db_alter", name, owner_recurse=recurse, **lacking, **words)
    except CommandExecutionError as problem:
        return failed(f"Failed to change parameters for database {name}: {problem}")
    return done(f"Parameters for database {name} have been changed", {name: "Parameters changed"})


def _create(
    context: Context, name: str, options: DatabaseOptions, words: Mapping[str, Any]
) -> StateResult:
    if context.test:
        return would(f"Database {name} is set to be created")
    wanted = given(options)
    wanted.pop("owner_recurse", None)
    try:
        context.call("postgres.db_create", name, **wanted, **words)
    except CommandExecutionError as problem:
        return failed(f"Failed to create database {name}: {problem}")
    return done(f"The database {name} has been created", {name: "Present"})


@state(ahead=remembering)
def absent(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a database does not exist; arguments: those of the server, as of present."""
    _, server, warnings = taken(None, arguments, "postgres_database.absent")
    expected = f"Database {name} is set to be removed"
    return attempt(context, lambda: _absent(context, str(name), server), expected, warnings)


def _absent(context: Context, name: str, server: ServerOptions) -> StateResult:
    if not context.call("postgres.db_exists", name, **server.words()):
        return done(f"Database {name} is not present, so it cannot be removed")
    if context.test:
        return would(f"Database {name} is set to be removed")
    try:
        context.call("postgres.db_remove", name, **server.words())
    except CommandExecutionError as problem:
        return failed(f"Database {name} failed to be removed: {problem}")
    return done(f"Database {name} has been removed", {name: "Absent"})

"""postgres_language.*: procedural languages of a database of PostgreSQL."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.postgres.psql import NoDatabaseError, remembering
from catena.states.answers import done, failed, would
from catena.states.postgres.server import ServerOptions, attempt, taken


def _exists(context: Context, name: str, database: str, server: ServerOptions) -> bool:
    words = server.words_without_database()
    try:
        return bool(context.call("postgres.language_exists", name, database, **words))
    except NoDatabaseError:
        if context.test:
            return False
        raise


@state(ahead=remembering)
def present(context: Context, /, name: str, maintenance_db: str, **arguments: Any) -> StateResult:
    """Make sure that a database has a language.

    Args:
        context: the call's context.
        name: of the language.
        maintenance_db: the database.
        arguments: user (system user that runs psql), db_user, db_password, db_host, db_port.
    """
    _, server, warnings = taken(None, arguments, "postgres_language.present")
    expected = f"Language {name} is set to be installed"

    def work() -> StateResult:
        if _exists(context, str(name), str(maintenance_db), server):
            return done(f"Language {name} is already installed")
        if context.test:
            return would(expected)
        words = server.words_without_database()
        try:
            context.call("postgres.language_create", name, maintenance_db, **words)
        except CommandExecutionError as problem:
            return failed(f"Failed to install language {name}: {problem}")
        return done(f"Language {name} has been installed", {str(name): "Present"})

    return attempt(context, work, expected, warnings)


@state(ahead=remembering)
def absent(context: Context, /, name: str, maintenance_db: str, **arguments: Any) -> StateResult:
    """Make sure that a database lacks a language; arguments as of present."""
    _, server, warnings = taken(None, arguments, "postgres_language.absent")
    expected = f"Language {name} is set to be removed"

    def work() -> StateResult:
        if not _exists(context, str(name), str(maintenance_db), server):
            return done(f"Language {name} is not present so it cannot be removed")
        if context.test:
            return would(expected)
        words = server.words_without_database()
        try:
            context.call("postgres.language_remove", name, maintenance_db, **words)
        except CommandExecutionError as problem:
            return failed(f"Failed to remove language {name}: {problem}")
        return done(f"Language {name} has been removed", {str(name): "Absent"})

    return attempt(context, work, expected, warnings)

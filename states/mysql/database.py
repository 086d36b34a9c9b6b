"""mysql_database.*: databases of MariaDB and MySQL."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.mysql.client import remembering
from catena.states.answers import done, failed, would
from catena.states.mysql.server import NoOptions, attempt, taken


@dataclass(frozen=True)
class CharsetOptions:
    """Defaults of a database, with Salt's names."""

    character_set: Optional[str] = None
    collate: Optional[str] = None


@state(ahead=remembering)
def present(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a database exists with these defaults.

    Args:
        context: the call's context.
        name: of the database.
        arguments: character_set, collate; connection_host, connection_port, connection_user,
            connection_pass, connection_unix_socket, connection_default_file, connection_charset.
    """
    options, words, warnings = taken(CharsetOptions, arguments, "mysql_database.present")
    return attempt(
        context,
        lambda: _present(context, name, options, words),
        f"Database {name} is not present and needs to be created",
        warnings,
    )


def _is_other(wanted: str, found: str) -> bool:
    """Return whether a character set or collation differs; utf8 is an old name of utf8mb3."""
    names = [one.lower().replace("utf8mb3", "utf8") for one in (str(wanted), found)]
    return names[0] != names[1]


def _present(
    context: Context, name: str, options: CharsetOptions, words: Mapping[str, Any]
) -> StateResult:
    found = context.call("mysql.db_get", name, **words)
    if not found:
        return _create(context, name, options, words)
    told = []
    for title, key in (("character set", "character_set"), ("collate", "collate")):
        wanted = getattr(options, key)
        if wanted and _is_other(wanted, found[key]):
            told.append(f"Database {title} {wanted} != {found[key]} needs to be updated")
    if not told:
        return done(f"Database {name} is already present")
    if context.test:
        return would("\n".join([*told, f"Database {name} is going to be updated"]))
    context.call("mysql.alter_db", name, options.character_set, options.collate, **words)
    now = context.call("mysql.db_get", name, **words)
    changes: Dict[str, Any] = {
        key: {"before": found[key], "now": now[key]} for key in now if now[key] != found[key]
    }
    return done("\n".join(told), changes)


def _create(
    context: Context, name: str, options: CharsetOptions, words: Mapping[str, Any]
) -> StateResult:
    if context.test:
        return would(f"Database {name} is not present and needs to be created")
    try:
        context.call("mysql.db_create", name, options.character_set, options.collate, **words)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Failed to create database {name} ({problem})")
    return done(f"The database {name} has been created", {name: "Present"})


@state(ahead=remembering)
def absent(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a database does not exist; arguments: connection_*, as of present."""
    _, words, warnings = taken(NoOptions, arguments, "mysql_database.absent")
    expected = f"Database {name} is present and needs to be removed"

    def work() -> StateResult:
        if not context.call("mysql.db_exists", name, **words):
            return done(f"Database {name} is not present, so it cannot be removed")
        if context.test:
            return would(expected)
        try:
            removed = context.call("mysql.db_remove", name, **words)
        except CommandExecutionError as problem:
            return failed(f"Unable to remove database {name} ({problem})")
        if not removed:
            return failed(f"Unable to remove database {name} (it belongs to the server)")
        return done(f"Database {name} has been removed", {name: "Absent"})

    return attempt(context, work, expected, warnings)

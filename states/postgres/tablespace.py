"""postgres_tablespace.*: folders for the data of PostgreSQL."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.postgres.psql import remembering
from catena.modules.shared.arguments import mapped
from catena.states.answers import done, failed, would
from catena.states.postgres.server import ServerOptions, attempt, taken


@dataclass(frozen=True)
class TablespaceOptions:
    """Attributes of a tablespace, with Salt's names."""

    #: {option: number}.
    options: Any = None
    owner: Optional[str] = None


def _differing(found: Mapping[str, str], options: Any) -> Dict[str, Any]:
    """Return the options that differ; the server lists them as {a=1.1,b=2}."""
    current = dict(one.split("=", 1) for one in found["Opts"].strip("{}").split(",") if "=" in one)
    wanted = mapped(options)
    return {key: value for key, value in wanted.items() if current.get(key) != str(value)}


@state(ahead=remembering)
def present(context: Context, /, name: str, directory: str, **arguments: Any) -> StateResult:
    """Make sure that a tablespace exists with these attributes.

    Args:
        context: the call's context.
        name: of the tablespace.
        directory: an empty folder that belongs to the server's system user.
        arguments: options ({seq_page_cost: 1.0}), owner, user (system user that runs psql),
            maintenance_db, db_user, db_password, db_host, db_port.
    """
    options, server, warnings = taken(TablespaceOptions, arguments, "postgres_tablespace.present")
    return attempt(
        context,
        lambda: _present(context, str(name), str(directory), options, server),
        f"Tablespace {name} is set to be created",
        warnings,
    )


def _present(
    context: Context, name: str, directory: str, options: TablespaceOptions, server: ServerOptions
) -> StateResult:
    words = server.words()
    found = context.call("postgres.tablespace_list", **words).get(name)
    if found is None:
        if context.test:
            return would(f"Tablespace {name} is set to be created")
        call = (name, directory, options.options, options.owner)
        try:
            context.call("postgres.tablespace_create", *call, **words)
        except (CommandExecutionError, UsageError) as problem:
            return failed(f"Failed to create tablespace {name}: {problem}")
        return done(f"The tablespace {name} has been created", {name: "Present"})
    if found["Location"] != directory.rstrip("/"):
        return failed(
            f"Tablespace {name} is not at the right location. This is unfixable without dropping "
            "and recreating the tablespace."
        )
    changes: Dict[str, Any] = {}
    told = []
    if options.owner and options.owner != found["Owner"]:
        changes["owner"] = options.owner
        told.append("owner")
    differing = _differing(found, options.options)
    if differing:
        changes["options"] = differing
        told.append("opts")
    if not changes:
        return done(f"Tablespace {name} is already present")
    if context.test:
        return would(f"Tablespace {name} {' and '.join(told)} to be altered")
    wanted = {"new_owner": changes.get("owner"), "set_option": differing}
    try:
        context.call("postgres.tablespace_alter", name, **wanted, **words)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Failed to change tablespace {name}: {problem}")
    return done(f"Tablespace {name} {' and '.join(told)} changed", {name: changes})


@state(ahead=remembering)
def absent(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a tablespace does not exist; arguments: those of the server."""
    _, server, warnings = taken(None, arguments, "postgres_tablespace.absent")
    expected = f"Tablespace {name} is set to be removed"

    def work() -> StateResult:
        if not context.call("postgres.tablespace_exists", name, **server.words()):
            return done(f"Tablespace {name} is not present, so it cannot be removed")
        if context.test:
            return would(expected)
        try:
            context.call("postgres.tablespace_remove", name, **server.words())
        except CommandExecutionError as problem:
            return failed(f"Tablespace {name} failed to be removed: {problem}")
        return done(f"Tablespace {name} has been removed", {str(name): "Absent"})

    return attempt(context, work, expected, warnings)

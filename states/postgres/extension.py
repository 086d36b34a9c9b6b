"""postgres_extension.*: extensions of a database of PostgreSQL."""

from __future__ import annotations

from typing import Any, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.postgres import extensions
from catena.modules.postgres.psql import NoDatabaseError, remembering
from catena.states.answers import done, failed, would
from catena.states.postgres.server import ServerOptions, attempt, given, taken


@dataclass(frozen=True)
class ExtensionOptions:
    """Attributes of an extension, with Salt's names."""

    if_not_exists: Optional[bool] = None
    schema: Optional[str] = None
    ext_version: Any = None
    from_version: Any = None


@dataclass(frozen=True)
class RemovalOptions:
    """How an extension is removed, with Salt's names."""

    if_exists: Optional[bool] = None
    restrict: Optional[bool] = None
    cascade: Optional[bool] = None


def _flags(
    context: Context, name: str, options: ExtensionOptions, server: ServerOptions
) -> List[str]:
    wanted = {"schema": options.schema, "ext_version": options.ext_version}
    try:
        found: List[str] = context.call(
            "postgres.create_metadata", name, **wanted, **server.words()
        )
    except NoDatabaseError:
        if not context.test:
            raise
        return [extensions.NOT_INSTALLED]
    return found


@state(ahead=remembering)
def present(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a database has an extension, at least in this version.

    Args:
        context: the call's context.
        name: of the extension.
        arguments: if_not_exists, schema, ext_version, from_version, maintenance_db (the database),
            user (system user that runs psql), db_user, db_password, db_host, db_port.
    """
    options, server, warnings = taken(ExtensionOptions, arguments, "postgres_extension.present")

    def work() -> StateResult:
        flags = _flags(context, str(name), options, server)
        if flags == [extensions.INSTALLED]:
            return done(f"Extension {name} is already present")
        verb = "install" if extensions.NOT_INSTALLED in flags else "upgrade"
        ended = "installed" if verb == "install" else "upgraded"
        if context.test:
            return would(f"Extension {name} is set to be {ended}")
        try:
            context.call("postgres.create_extension", name, **given(options), **server.words())
        except CommandExecutionError as problem:
            return failed(f"Failed to {verb} extension {name}: {problem}")
        told = f"The extension {name} has been {ended}"
        return done(told, {str(name): ended.capitalize()})

    return attempt(context, work, f"Extension {name} is set to be installed", warnings)


@state(ahead=remembering)
def absent(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a database lacks an extension.

    Args:
        context: the call's context.
        name: of the extension.
        arguments: cascade (True unless restrict is), restrict, if_exists; and those of the server,
            as of present.
    """
    options, server, warnings = taken(RemovalOptions, arguments, "postgres_extension.absent")
    expected = f"Extension {name} is set to be removed"

    def work() -> StateResult:
        if not context.call("postgres.is_installed_extension", name, **server.words()):
            return done(f"Extension {name} is not present, so it cannot be removed")
        if context.test:
            return would(expected)
        try:
            context.call("postgres.drop_extension", name, **given(options), **server.words())
        except CommandExecutionError as problem:
            return failed(f"Extension {name} failed to be removed: {problem}")
        return done(f"Extension {name} has been removed", {str(name): "Absent"})

    return attempt(context, work, expected, warnings)

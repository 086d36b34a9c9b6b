"""postgres_initdb.present: the folder with the data of a PostgreSQL server."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import fields
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.postgres.clusters import DatadirOptions
from catena.modules.shared.arguments import split
from catena.states.answers import done, failed, likely_typos, would


@state()
def present(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a folder holds the data of a server.

    Args:
        context: the call's context.
        name: path of the folder.
        arguments: user (the superuser), password (of it), auth ("password"), encoding ("UTF8"),
            locale, runas (system user, "postgres"), waldir, checksums (False).
    """
    options, rest = split(DatadirOptions, arguments)
    warnings = likely_typos(DatadirOptions, rest, "postgres_initdb.present")
    subject = f"Postgres data directory {name}"
    if context.call("postgres.datadir_exists", name):
        found = done(f"{subject} is already present")
    elif context.test:
        found = would(f"{subject} is set to be initialized")
    else:
        words = {one.name: getattr(options, one.name) for one in fields(DatadirOptions)}
        try:
            context.call("postgres.datadir_init", name, **words)
            found = done(f"{subject} has been initialized", {name: "Present"})
        except (CommandExecutionError, UsageError) as problem:
            found = failed(f"{subject} initialization failed: {problem}")
    return StateResult(found.result, found.changes, found.comment, warnings)

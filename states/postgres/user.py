"""postgres_user.*: roles of PostgreSQL that may log in."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.postgres.psql import remembering
from catena.states.postgres import roles


@state(ahead=remembering)
def present(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a role exists that may log in, with these attributes.

    Args:
        context: the call's context.
        name: of the role.
        arguments: createdb, createroles, superuser, replication, inherit, login, password (plain
            text or a stored form), encrypted ("scram-sha-256" or "md5"; default: the server's
            method), default_password, refresh_password (set it without comparing), valid_until,
            groups (a list, or separated by commas), user (system user that runs psql),
            maintenance_db, db_user, db_password, db_host, db_port.
    """
    return roles.present(context, "user", name, arguments)


@state(ahead=remembering)
def absent(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a role does not exist; arguments: those of the server, as of present."""
    return roles.absent(context, "user", name, arguments)

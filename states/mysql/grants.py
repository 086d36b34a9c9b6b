"""mysql_grants.*: what accounts of MariaDB and MySQL may do."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.mysql import grants
from catena.modules.mysql.client import remembering
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would
from catena.states.mysql.server import attempt, taken


@dataclass(frozen=True)
class GrantsOptions:
    """Arguments of the states, with Salt's names."""

    #: "SELECT, INSERT (a, b)" or "ALL".
    grant: Any = None
    #: "db.*", "db.table" or "*.*".
    database: Optional[str] = None
    user: Optional[str] = None
    host: str = "localhost"
    grant_option: Any = False
    #: An underscore or percent sign of a database's name stands for itself.
    escape: Any = True
    #: Take what the user holds of the object first.
    revoke_first: Any = False
    ssl_option: Any = False

    def call(self) -> Tuple[Any, ...]:
        """Return the positional arguments of the functions of grants.

        Raises:
            UsageError: one is missing.
        """
        for name in ("grant", "database", "user"):
            if not getattr(self, name):
                raise UsageError(f"{name} is missing")
        return (self.grant, self.database, self.user, self.host)

    def words(self) -> Dict[str, Any]:
        """Return the keyword arguments of mysql.grant_exists."""
        return {"grant_option": self.grant_option, "escape": self.escape}


@state(ahead=remembering)
def present(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that an account holds privileges of an object.

    Args:
        context: the call's context.
        name: of the state.
        arguments: grant ("SELECT,INSERT"), database ("db.*", "db.table", "*.*"), user, host
            ("localhost"), grant_option (False), escape (True), revoke_first (False), ssl_option
            (False); connection_host, connection_port, connection_user, connection_pass,
            connection_unix_socket, connection_default_file, connection_charset.
    """
    options, words, warnings = taken(GrantsOptions, arguments, "mysql_grants.present")
    return attempt(
        context,
        lambda: _present(context, name, options, words),
        f"MySQL grant {name} is set to be created",
        warnings,
    )


def _present(
    context: Context, name: str, options: GrantsOptions, words: Mapping[str, Any]
) -> StateResult:
    call = options.call()
    shown = f"{options.grant} on {options.database} to {options.user}@{options.host}"
    if context.call("mysql.grant_exists", *call, **options.words(), **words):
        return done(f"Grant {shown} is already present")
    if context.test:
        return would(f"MySQL grant {name} is set to be created")
    try:
        if truth(options.revoke_first):
            _revoke_held(context, options, words)
        added = {**options.words(), "ssl_option": options.ssl_option}
        context.call("mysql.grant_add", *call, **added, **words)
    except CommandExecutionError as problem:
        upper = f"GRANT {options.grant} ON {options.database} TO {options.user}@{options.host}"
        return failed(f'Failed to execute: "{upper}" ({problem})')
    return done(f"Grant {shown} has been added", {name: "Present"})


def _revoke_held(context: Context, options: GrantsOptions, words: Mapping[str, Any]) -> None:
    """Take from the user all privileges of the object."""
    _, database, user, host = options.call()
    place = grants.target(database, truth(options.escape))
    for line in context.call("mysql.user_grants", user, host, **words):
        found = grants.parsed(line)
        if found is not None and found.target == place and found.privileges != {"USAGE"}:
            held = sorted(found.privileges)
            rest = {"escape": options.escape, "grant_option": found.option}
            context.call("mysql.grant_revoke", held, database, user, host, **rest, **words)


@state(ahead=remembering)
def absent(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that an account does not hold privileges of an object; arguments as of present."""
    options, words, warnings = taken(GrantsOptions, arguments, "mysql_grants.absent")
    expected = f"MySQL grant {name} is set to be revoked"
    shown = f"{options.grant} on {options.database}"
    account = f"{options.user}@{options.host}"

    def work() -> StateResult:
        call = options.call()
        if not context.call("mysql.grant_exists", *call, **options.words(), **words):
            return done(f"Grant {shown} to {account} is not present, so it cannot be revoked")
        if context.test:
            return would(expected)
        try:
            context.call("mysql.grant_revoke", *call, **options.words(), **words)
        except CommandExecutionError as problem:
            return failed(f"Unable to revoke grant {shown} for {account} ({problem})")
        return done(f"Grant {shown} for {account} has been revoked", {name: "Absent"})

    return attempt(context, work, expected, warnings)

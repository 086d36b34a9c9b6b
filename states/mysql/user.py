"""mysql_user.*: accounts of MariaDB and MySQL."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.mysql.client import remembering
from catena.modules.mysql.users import NATIVE
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would
from catena.states.mysql.server import NoOptions, attempt, taken


@dataclass(frozen=True)
class LoginOptions:
    """How a user logs in, with Salt's names."""

    password: Optional[str] = None
    #: Stored form of mysql_native_password.
    password_hash: Optional[str] = None
    allow_passwordless: Any = False
    unix_socket: Any = False
    #: Accepted for Salt's sake: the column is found.
    password_column: Optional[str] = None
    auth_plugin: str = NATIVE

    def without_password(self) -> bool:
        """Return whether no password is given."""
        return not self.password and not self.password_hash


@state(ahead=remembering)
def present(
    context: Context, /, name: str, host: str = "localhost", **arguments: Any
) -> StateResult:
    """Make sure that an account exists and logs in with this password.

    Args:
        context: the call's context.
        name: of the account.
        host: of the account.
        arguments: password or password_hash, allow_passwordless (False), unix_socket (False: with
            True, the system user of that name logs in), auth_plugin ("mysql_native_password");
            connection_host, connection_port, connection_user, connection_pass,
            connection_unix_socket, connection_default_file, connection_charset.
    """
    options, words, warnings = taken(LoginOptions, arguments, "mysql_user.present")
    return attempt(
        context,
        lambda: _present(context, name, host, options, words),
        f"User {name}@{host} is set to be added",
        warnings,
    )


def _login(options: LoginOptions) -> Dict[str, Any]:
    """Return the arguments of mysql.user_create."""
    found = {"unix_socket": options.unix_socket, "auth_plugin": options.auth_plugin}
    if options.password:
        found["password"] = str(options.password)
    elif options.password_hash:
        found["password_hash"] = str(options.password_hash)
    else:
        found["allow_passwordless"] = options.allow_passwordless
    return found


def _present(
    context: Context, name: str, host: str, options: LoginOptions, words: Mapping[str, Any]
) -> StateResult:
    cleared = options.without_password()
    if cleared and not truth(options.allow_passwordless) and not truth(options.unix_socket):
        return failed(
            "Either password or password_hash must be specified, unless allow_passwordless is True"
        )
    login = _login(options)
    compared = {key: value for key, value in login.items() if key != "allow_passwordless"}
    if context.call("mysql.user_exists", name, host, passwordless=cleared, **compared, **words):
        return done(f"User {name}@{host} is already present{_how(options)}")
    verb = "change" if context.call("mysql.user_exists", name, host, **words) else "create"
    if verb == "change":
        ended = "cleared" if cleared else "changed"
        if context.test:
            return would(f"Password for user {name}@{host} is set to be {ended}")
        try:
            context.call("mysql.user_chpass", name, host, **login, **words)
        except (CommandExecutionError, UsageError) as problem:
            doing = "clear" if cleared else "change"
            return failed(f"Failed to {doing} password for user {name}@{host} ({problem})")
        return done(f"Password for user {name}@{host} has been {ended}", {name: "Updated"})
    suffix = " with passwordless login" if truth(options.allow_passwordless) else ""
    suffix += " using unix_socket" if truth(options.unix_socket) else ""
    if context.test:
        return would(f"User {name}@{host} is set to be added{suffix}")
    try:
        context.call("mysql.user_create", name, host, **login, **words)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Failed to create user {name}@{host} ({problem})")
    return done(f"The user {name}@{host} has been added{suffix}", {name: "Present"})


def _how(options: LoginOptions) -> str:
    """Return the end of the sentence about a user that is as wanted."""
    if options.without_password():
        return " with passwordless login" if truth(options.allow_passwordless) else ""
    if options.auth_plugin != NATIVE:
        return ". Unable to verify password."
    return f" with the desired password{'' if options.password else ' hash'}"


@state(ahead=remembering)
def absent(
    context: Context, /, name: str, host: str = "localhost", **arguments: Any
) -> StateResult:
    """Make sure that an account does not exist; arguments: connection_*, as of present."""
    _, words, warnings = taken(NoOptions, arguments, "mysql_user.absent")
    expected = f"User {name}@{host} is set to be removed"

    def work() -> StateResult:
        if not context.call("mysql.user_exists", name, host, **words):
            return done(f"User {name}@{host} is not present, so it cannot be removed")
        if context.test:
            return would(expected)
        context.call("mysql.user_remove", name, host, **words)
        return done(f"User {name}@{host} has been removed", {name: "Absent"})

    return attempt(context, work, expected, warnings)

"""mysql.user_*: accounts of a server."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.mysql.client import MysqlConnection, act, ask, connection, literal, word
from catena.modules.mysql.databases import only_connection
from catena.modules.shared.arguments import take, truth

NATIVE = "mysql_native_password"
_SOCKETS = ("unix_socket", "auth_socket")
_HASH = re.compile(r"\*[0-9A-Fa-f]{40}\Z")
_ALL = "SELECT * FROM mysql.user"


@dataclass(frozen=True)
class AccountOptions:
    """How a user logs in, with Salt's names."""

    password: Optional[str] = None
    #: Stored form of mysql_native_password.
    password_hash: Optional[str] = None
    allow_passwordless: Any = False
    passwordless: Any = False
    unix_socket: Any = False
    #: Accepted for Salt's sake: the column is found.
    password_column: Optional[str] = None
    auth_plugin: str = NATIVE


def native_hash(password: str) -> str:
    """Return the stored form of mysql_native_password; that of no password is ""."""
    if not password:
        return ""
    inner = hashlib.sha1(password.encode("utf-8"), usedforsecurity=False).digest()
    return f"*{hashlib.sha1(inner, usedforsecurity=False).hexdigest().upper()}"


def account(user: Any, host: Any) -> str:
    """Return an account as SQL."""
    return f"{literal(user)}@{literal(host)}"


def _stored(row: Mapping[str, str]) -> str:
    """Return the stored form of a row's password; old versions have it in another column."""
    return row.get("authentication_string") or row.get("Password") or ""


def _wanted_hash(options: AccountOptions) -> Optional[str]:
    """Return the wanted stored form; None: none is given.

    Raises:
        UsageError: password_hash is no stored form.
    """
    if options.password is not None:
        return native_hash(str(options.password))
    if options.password_hash is None:
        return None
    if not _HASH.match(str(options.password_hash)):
        raise UsageError("password_hash must be * and 40 hexadecimal digits")
    return str(options.password_hash).upper()


def _find(
    context: Context, server: MysqlConnection, user: str, host: str
) -> Optional[Dict[str, str]]:
    for row in ask(context, server, _ALL):
        if row["User"] == str(user) and row["Host"].lower() == str(host).lower():
            return row
    return None


@function(reads=True)
def user_list(context: Context, /, **arguments: Any) -> List[Dict[str, str]]:
    """Return User and Host of each account; arguments: those of the connection (mysql.version)."""
    server = only_connection(context, arguments, "mysql.user_list")
    return [{"User": row["User"], "Host": row["Host"]} for row in ask(context, server, _ALL)]


@function(reads=True)
def user_info(
    context: Context, /, user: str, host: str = "localhost", **arguments: Any
) -> Optional[Dict[str, str]]:
    """Return the row of an account in mysql.user without its password, or None."""
    server = only_connection(context, arguments, "mysql.user_info")
    found = _find(context, server, user, host)
    if found is None:
        return None
    secret = ("authentication_string", "Password")
    return {key: value for key, value in found.items() if key not in secret}


@function(reads=True)
def user_exists(context: Context, /, user: str, host: str = "localhost", **arguments: Any) -> bool:
    """Return whether an account exists, and logs in as given.

    Args:
        context: the call's context.
        user: name of the account.
        host: host of the account.
        arguments: password or password_hash, passwordless, unix_socket; and those of the
            connection. A password of another plug-in than mysql_native_password can't be
            compared: such an account counts as one with the given password.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
        UsageError: password_hash is no stored form.
    """
    server, rest = connection(context, arguments)
    options = take(AccountOptions, rest, "mysql.user_exists")
    wanted = _wanted_hash(options)
    found = _find(context, server, user, host)
    if found is None:
        return False
    plugin, stored = found.get("plugin", ""), _stored(found)
    if truth(options.passwordless):
        if truth(options.unix_socket):
            return plugin in _SOCKETS
        return plugin not in _SOCKETS and not stored
    if wanted is None:
        return True
    if plugin in ("", NATIVE):
        return hmac.compare_digest(stored.upper(), wanted)
    return plugin not in _SOCKETS and options.auth_plugin == plugin


def _authentication(context: Context, server: MysqlConnection, options: AccountOptions) -> str:
    """Return the clause that says how an account logs in.

    Raises:
        UsageError: nothing is given and allow_passwordless is not set.
    """
    maria = "mariadb" in ask(context, server, "SELECT VERSION() AS v")[0]["v"].lower()
    wanted = _wanted_hash(options)
    if wanted is None:
        if truth(options.unix_socket):
            return " IDENTIFIED VIA unix_socket" if maria else " IDENTIFIED WITH auth_socket"
        if not truth(options.allow_passwordless):
            raise UsageError(
                "password or password_hash must be specified, unless allow_passwordless=True"
            )
        wanted = ""
    plugin = word(options.auth_plugin, "auth_plugin")
    if plugin == NATIVE or not options.password:
        if maria:
            return f" IDENTIFIED VIA {NATIVE} USING {literal(wanted)}"
        return f" IDENTIFIED WITH {NATIVE} AS {literal(wanted)}"
    if maria:
        return f" IDENTIFIED VIA {plugin} USING PASSWORD({literal(options.password)})"
    return f" IDENTIFIED WITH {plugin} BY {literal(options.password)}"


@function(fails="bool")
def user_create(context: Context, /, user: str, host: str = "localhost", **arguments: Any) -> bool:
    """Create an account; return False if it exists.

    Args:
        context: the call's context.
        user: name of the account.
        host: host of the account.
        arguments: password or password_hash, allow_passwordless (False), unix_socket (False),
            auth_plugin ("mysql_native_password"); and those of the connection.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
        UsageError: neither a password nor allow_passwordless is given.
    """
    server, rest = connection(context, arguments)
    options = take(AccountOptions, rest, "mysql.user_create")
    if _find(context, server, user, host) is not None:
        return False
    clause = _authentication(context, server, options)
    act(context, server, [f"CREATE USER {account(user, host)}{clause}"], secret=True)
    return True


@function(fails="bool")
def user_chpass(context: Context, /, user: str, host: str = "localhost", **arguments: Any) -> bool:
    """Change how an account logs in; arguments as of user_create.

    Raises:
        CommandExecutionError: no such account, or the server does not answer or refuses.
        UsageError: as user_create.
    """
    server, rest = connection(context, arguments)
    options = take(AccountOptions, rest, "mysql.user_chpass")
    if _find(context, server, user, host) is None:
        raise CommandExecutionError(f"there is no user {user}@{host}")
    clause = _authentication(context, server, options)
    act(context, server, [f"ALTER USER {account(user, host)}{clause}"], secret=True)
    return True


@function(fails="bool")
def user_remove(context: Context, /, user: str, host: str = "localhost", **arguments: Any) -> bool:
    """Remove an account; return False if there is none; arguments: those of the connection.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
    """
    server = only_connection(context, arguments, "mysql.user_remove")
    if _find(context, server, user, host) is None:
        return False
    act(context, server, [f"DROP USER {account(user, host)}"])
    return True

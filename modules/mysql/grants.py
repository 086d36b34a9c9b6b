"""mysql.grant_* and user_grants: what accounts may do."""

from __future__ import annotations

import re
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.mysql.client import (
    MysqlConnection,
    MysqlError,
    act,
    ask,
    connection,
    identifier,
    literal,
)
from catena.modules.mysql.databases import only_connection
from catena.modules.mysql.users import account
from catena.modules.shared.arguments import listed, mapped, take, truth

ALL = "ALL PRIVILEGES"
_PRIVILEGE = re.compile(r"([A-Za-z][A-Za-z_ ]*?)\s*(?:\(([^()]*)\))?\Z")
_KINDS = ("TABLE", "FUNCTION", "PROCEDURE")
#: A quoted name or text, or another character.
_PIECES = re.compile(r"`(?:[^`]|``)*`|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|.", re.DOTALL)
#: Other names of privileges in SHOW GRANTS.
_ALIASES = {
    "ALL": ALL,
    "BINLOG MONITOR": "REPLICATION CLIENT",
    "CREATE TEMPORARY TABLE": "CREATE TEMPORARY TABLES",
    "LOCK TABLE": "LOCK TABLES",
}
#: No user, or no grant for it.
_NONE = ("1141", "1147", "1133")
_REQUIREMENTS = ("SSL", "X509", "NONE")
_VALUED = ("CIPHER", "ISSUER", "SUBJECT")


@dataclass(frozen=True)
class GrantedRights:
    """One line of SHOW GRANTS."""

    #: Names in capitals, with columns as "SELECT (`a`)".
    privileges: FrozenSet[str]
    #: As SQL: `db`.* or PROCEDURE `db`.`name`.
    target: str
    option: bool


@dataclass(frozen=True)
class _RightsOptions:
    """Arguments of the functions of grants, with Salt's names."""

    grant_option: Any = False
    #: An underscore or percent sign of a database's name stands for itself.
    escape: Any = True
    ssl_option: Any = False


def _outside(text: str, words: Tuple[str, ...]) -> Dict[str, int]:
    """Return where each of some words first stands outside quotes and parentheses."""
    found: Dict[str, int] = {}
    depth = place = 0
    for match in _PIECES.finditer(text):
        piece = match.group()
        place = match.start()
        depth += (piece == "(") - (piece == ")")
        if depth == 0 and piece == " ":
            for word in words:
                if word not in found and text.startswith(word, place):
                    found[word] = place
    return found


def _commas(text: str) -> List[str]:
    """Return the parts of a list; a comma in quotes or parentheses separates nothing."""
    parts, depth = [""], 0
    for match in _PIECES.finditer(text):
        piece = match.group()
        depth += (piece == "(") - (piece == ")")
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [one.strip() for one in parts if one.strip()]


def _privilege(text: str) -> str:
    """Return the normal form of a privilege.

    Raises:
        UsageError: it is none.
    """
    match = _PRIVILEGE.match(text.strip())
    if match is None:
        raise UsageError(f"grant: {text[:60]!r} is no privilege")
    name = " ".join(match.group(1).upper().split())
    name = _ALIASES.get(name, name)
    if match.group(2) is None:
        return name
    columns = sorted(one.strip().strip("`") for one in match.group(2).split(",") if one.strip())
    return f"{name} ({', '.join(identifier(one) for one in columns)})"


def privileges(grant: Any) -> FrozenSet[str]:
    """Return the privileges of a text "SELECT, INSERT (a, b)" or of a list.

    Raises:
        UsageError: one is no privilege, or there is none.
    """
    texts = _commas(grant) if isinstance(grant, str) else [str(one) for one in listed(grant)]
    if not texts:
        raise UsageError("grant: no privilege is given")
    return frozenset(_privilege(one) for one in texts)


def target(database: Any, escape: bool) -> str:
    """Return the object of a grant as SQL.

    Args:
        database: "db.*", "db.table", "*.*" or "PROCEDURE db.name".
        escape: `_`, `%` and a backslash in the name of a whole database stand for themselves.

    Raises:
        UsageError: it has another form.
    """
    text = str(database or "").strip()
    kind, _, rest = text.partition(" ")
    kind = kind.upper() if kind.upper() in _KINDS else ""
    text = rest.strip() if kind else text
    schema, dot, table = text.rpartition(".")
    schema, table = (_bare(one) for one in (schema, table))
    if not dot or not schema or not table or (schema == "*" and table != "*"):
        raise UsageError(f"database: {text[:80]!r} must have the form db.*, db.table or *.*")
    prefix = f"{kind} " if kind and kind != "TABLE" else ""
    if schema == "*":
        return "*.*"
    if table == "*":
        shown = re.sub(r"([\\_%])", r"\\\1", schema) if escape else schema
        return f"{prefix}{identifier(shown)}.*"
    return f"{prefix}{identifier(schema)}.{identifier(table)}"


def _bare(name: str) -> str:
    if len(name) > 1 and name.startswith("`") and name.endswith("`"):
        return name[1:-1].replace("``", "`")
    return name


def parsed(line: str) -> Optional[GrantedRights]:
    """Return a line of SHOW GRANTS; None for one of another form, as a role."""
    places = _outside(line, (" ON ", " TO "))
    if not line.startswith("GRANT ") or " ON " not in places or " TO " not in places:
        return None
    held = frozenset(_privilege(one) for one in _commas(line[6 : places[" ON "]]))
    shown = line[places[" ON "] + 4 : places[" TO "]]
    return GrantedRights(held, shown, line.endswith("GRANT OPTION"))


def _lines(context: Context, server: MysqlConnection, user: str, host: str) -> List[str]:
    try:
        rows = ask(context, server, f"SHOW GRANTS FOR {account(user, host)}")
    except MysqlError as problem:
        if problem.code in _NONE:
            return []
        raise
    return [one for row in rows for one in row.values()]


def _held(context: Context, server: MysqlConnection, user: str, host: str) -> List[GrantedRights]:
    found = (parsed(line) for line in _lines(context, server, user, host))
    return [one for one in found if one is not None]


@function(reads=True)
def user_grants(
    context: Context, /, user: str, host: str = "localhost", **arguments: Any
) -> List[str]:
    """Return the grants of an account as SQL, without passwords.

    Args:
        context: the call's context.
        user: name of the account.
        host: host of the account.
        arguments: those of the connection (mysql.version).
    """
    server = only_connection(context, arguments, "mysql.user_grants")
    lines = _lines(context, server, user, host)
    return [re.split(r" IDENTIFIED (?:BY|VIA|WITH) ", one)[0] for one in lines]


def _has(
    context: Context,
    server: MysqlConnection,
    held: List[GrantedRights],
    wanted: FrozenSet[str],
    option: bool,
) -> bool:
    """Return whether grants for one object contain the wanted privileges."""
    names: FrozenSet[str] = frozenset().union(*(one.privileges for one in held))
    if option and not any(one.option for one in held):
        return False
    if ALL in names:
        return True
    if ALL not in wanted:
        return bool(held) and wanted - {"USAGE", "GRANT OPTION"} <= names
    # MySQL 8 lists all privileges of a server instead of ALL PRIVILEGES.
    rows = ask(context, server, "SHOW PRIVILEGES")
    everything = {row["Privilege"].upper() for row in rows}
    return bool(names) and everything - {"USAGE", "GRANT OPTION", "PROXY"} <= names


@function(reads=True)
def grant_exists(
    context: Context,
    /,
    grant: Any,
    database: str,
    user: str,
    host: str = "localhost",
    **arguments: Any,
) -> bool:
    """Return whether an account holds privileges of an object.

    Args:
        context: the call's context.
        grant: "SELECT, INSERT (a, b)" or "ALL".
        database: "db.*", "db.table", "*.*" or "PROCEDURE db.name".
        user: name of the account.
        host: host of the account.
        arguments: grant_option (False), escape (True: `_` and `%` in the name of a database are
            no patterns); and those of the connection.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
        UsageError: *grant* or *database* has another form.
    """
    server, rest = connection(context, arguments)
    options = take(_RightsOptions, rest, "mysql.grant_exists")
    wanted, place = privileges(grant), target(database, truth(options.escape))
    held = [one for one in _held(context, server, user, host) if one.target == place]
    return _has(context, server, held, wanted, truth(options.grant_option))


def _requirement(ssl_option: Any) -> str:
    """Return the clause REQUIRE of a list of options.

    Raises:
        UsageError: an option is unknown.
    """
    if not ssl_option or ssl_option is True:
        return " REQUIRE SSL" if ssl_option else ""
    words = []
    for one in ssl_option if isinstance(ssl_option, (list, tuple)) else [ssl_option]:
        pairs = mapped(one) if isinstance(one, Mapping) else {str(one): True}
        for key, value in pairs.items():
            name = str(key).upper()
            if name in _REQUIREMENTS and truth(value):
                words.append(name)
            elif name in _VALUED:
                words.append(f"{name} {literal(value)}")
            elif name not in _REQUIREMENTS:
                raise UsageError(f"ssl_option: {str(key)[:40]!r} is no requirement")
    return f" REQUIRE {' AND '.join(words)}" if words else ""


@function(fails="bool")
def grant_add(
    context: Context,
    /,
    grant: Any,
    database: str,
    user: str,
    host: str = "localhost",
    **arguments: Any,
) -> bool:
    """Grant privileges of an object to an account; arguments as of grant_exists, and ssl_option.

    Raises:
        as grant_exists.
    """
    server, rest = connection(context, arguments)
    options = take(_RightsOptions, rest, "mysql.grant_add")
    words = ", ".join(sorted(privileges(grant)))
    place = target(database, truth(options.escape))
    statement = f"GRANT {words} ON {place} TO {account(user, host)}"
    statement += _requirement(options.ssl_option)
    if truth(options.grant_option):
        statement += " WITH GRANT OPTION"
    act(context, server, [statement])
    return True


@function(fails="bool")
def grant_revoke(
    context: Context,
    /,
    grant: Any,
    database: str,
    user: str,
    host: str = "localhost",
    **arguments: Any,
) -> bool:
    """Take privileges of an object from an account; arguments as of grant_exists.

    Raises:
        as grant_exists.
    """
    server, rest = connection(context, arguments)
    options = take(_RightsOptions, rest, "mysql.grant_revoke")
    wanted = sorted(privileges(grant))
    if truth(options.grant_option):
        wanted.append("GRANT OPTION")
    place = target(database, truth(options.escape))
    statement = f"REVOKE {', '.join(wanted)} ON {place} FROM {account(user, host)}"
    act(context, server, [statement])
    return True

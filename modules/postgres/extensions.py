"""postgres.*_extension*: extensions of a database."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.postgres.databases import only_connection
from catena.modules.postgres.psql import PsqlConnection, act, ask, connection
from catena.modules.shared.arguments import take, truth

#: Flags of create_metadata, with Salt's texts.
NOT_INSTALLED = "EXTENSION NOT INSTALLED"
INSTALLED = "EXTENSION INSTALLED"
TO_UPGRADE = "EXTENSION TO UPGRADE"
TO_MOVE = "EXTENSION TO MOVE"

_AVAILABLE = "SELECT * FROM pg_catalog.pg_available_extensions()"
_INSTALLED = """SELECT e.*, n.nspname AS schema_name FROM pg_catalog.pg_extension e
 JOIN pg_catalog.pg_namespace n ON e.extnamespace = n.oid"""


@function(reads=True)
def available_extensions(context: Context, /, **arguments: Any) -> Dict[str, Dict[str, str]]:
    """Return the extensions that a server could install, by name.

    Args:
        context: the call's context.
        arguments: user, host, port, maintenance_db (the database), password, runas.
    """
    server = only_connection(context, arguments, "postgres.available_extensions")
    return {row["name"]: row for row in ask(context, server, _AVAILABLE)}


@function(reads=True)
def installed_extensions(context: Context, /, **arguments: Any) -> Dict[str, Dict[str, str]]:
    """Return the extensions of a database, by name; arguments as of available_extensions."""
    server = only_connection(context, arguments, "postgres.installed_extensions")
    return {row["extname"]: row for row in ask(context, server, _INSTALLED)}


@function(reads=True)
def get_available_extension(
    context: Context, /, name: str, **arguments: Any
) -> Optional[Dict[str, str]]:
    """Return one entry of available_extensions, or None."""
    return available_extensions(context, **arguments).get(str(name))


@function(reads=True)
def get_installed_extension(
    context: Context, /, name: str, **arguments: Any
) -> Optional[Dict[str, str]]:
    """Return one entry of installed_extensions, or None."""
    return installed_extensions(context, **arguments).get(str(name))


@function(reads=True)
def is_available_extension(context: Context, /, name: str, **arguments: Any) -> bool:
    """Return whether a server could install an extension; upper and lower case are the same."""
    names = {one.lower() for one in available_extensions(context, **arguments)}
    return str(name).lower() in names


@function(reads=True)
def is_installed_extension(context: Context, /, name: str, **arguments: Any) -> bool:
    """Return whether a database has an extension; arguments as of available_extensions."""
    return str(name) in installed_extensions(context, **arguments)


@dataclass(frozen=True)
class _WantedExtension:
    """Attributes of an extension, with Salt's names."""

    if_not_exists: Optional[bool] = None
    schema: Optional[str] = None
    ext_version: Any = None
    from_version: Any = None


def _order(version: str) -> Tuple[Tuple[int, str], ...]:
    """Return a sort key: numbers by value, and before them words."""
    parts = re.findall(r"\d+|[A-Za-z]+", version)
    return tuple((int(one), "") if one.isdigit() else (-1, one) for one in parts)


def _status(
    context: Context, server: PsqlConnection, name: str, wanted: _WantedExtension
) -> List[str]:
    rows = {row["extname"]: row for row in ask(context, server, _INSTALLED)}
    if name not in rows:
        return [NOT_INSTALLED]
    found, flags = rows[name], [INSTALLED]
    version = wanted.ext_version
    if version is not None and _order(found["extversion"]) < _order(str(version)):
        flags.append(TO_UPGRADE)
    movable = found["extrelocatable"] == "t"
    if wanted.schema is not None and movable and found["schema_name"] != wanted.schema:
        flags.append(TO_MOVE)
    return flags


@function(reads=True)
def create_metadata(context: Context, /, name: str, **arguments: Any) -> List[str]:
    """Return flags that say how an extension differs from what is wanted.

    Args:
        context: the call's context.
        name: of the extension.
        arguments: ext_version, schema; and those of the connection.
    """
    server, rest = connection(context, arguments)
    wanted = take(_WantedExtension, rest, "postgres.create_metadata")
    return _status(context, server, str(name), wanted)


@function(fails="bool")
def create_extension(context: Context, /, name: str, **arguments: Any) -> bool:
    """Install an extension in a database, or move or upgrade it.

    Args:
        context: the call's context.
        name: of the extension.
        arguments: if_not_exists (True), schema, ext_version, from_version; and those of the
            connection: user, host, port, maintenance_db (the database), password, runas.

    Raises:
        CommandExecutionError: the server does not answer, lacks the extension, or refuses.
    """
    server, rest = connection(context, arguments)
    wanted = take(_WantedExtension, rest, "postgres.create_extension")
    flags = _status(context, server, str(name), wanted)
    values = {"name": name, "schema": wanted.schema or "", "version": wanted.ext_version or ""}
    statements = []
    if NOT_INSTALLED in flags:
        if not ask(context, server, f"{_AVAILABLE} AS a WHERE a.name = :'name'", {"name": name}):
            raise CommandExecutionError(
                f"the server has no extension {name}: install the package that contains it"
            )
        values["from"] = wanted.from_version or ""
        statements.append(_creation(wanted))
    if TO_MOVE in flags:
        statements.append('ALTER EXTENSION :"name" SET SCHEMA :"schema"')
    if TO_UPGRADE in flags:
        statements.append("ALTER EXTENSION :\"name\" UPDATE TO :'version'")
    if statements:
        act(context, server, statements, values)
    return True


def _creation(wanted: _WantedExtension) -> str:
    words = ["CREATE EXTENSION"]
    if wanted.if_not_exists is None or truth(wanted.if_not_exists):
        words.append("IF NOT EXISTS")
    words.append(':"name"')
    if wanted.schema:
        words.append('SCHEMA :"schema"')
    if wanted.ext_version:
        words.append("VERSION :'version'")
    if wanted.from_version:
        words.append("FROM :'from'")
    return " ".join(words)


@dataclass(frozen=True)
class _DropOptions:
    """Arguments of drop_extension."""

    if_exists: Optional[bool] = None
    restrict: Optional[bool] = None
    cascade: Optional[bool] = None


@function(fails="bool")
def drop_extension(context: Context, /, name: str, **arguments: Any) -> bool:
    """Remove an extension from a database.

    Args:
        context: the call's context.
        name: of the extension.
        arguments: cascade (True unless *restrict* is), restrict (False), if_exists (False); and
            those of the connection, as of create_extension.

    Raises:
        CommandExecutionError: the server does not answer, or refuses.
    """
    server, rest = connection(context, arguments)
    options = take(_DropOptions, rest, "postgres.drop_extension")
    restrict = truth(options.restrict)
    cascade = not restrict if options.cascade is None else truth(options.cascade)
    if name in {row["extname"] for row in ask(context, server, _INSTALLED)}:
        word = "CASCADE" if cascade else "RESTRICT"
        act(context, server, [f'DROP EXTENSION :"name" {word}'], {"name": name})
    return True

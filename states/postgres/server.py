"""What all states of PostgreSQL share: the connection, and answers while there is no server."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Type, TypeVar

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, fields, replace
from catena.core.types import StateResult
from catena.modules.postgres.psql import NoServerError
from catena.modules.shared.arguments import split
from catena.states.answers import failed, likely_typos, would

T = TypeVar("T")


@dataclass(frozen=True)
class ServerOptions:
    """Arguments of all states that say where the server is, with Salt's names."""

    #: System user that runs psql.
    user: Optional[str] = None
    maintenance_db: Optional[str] = None
    db_user: Optional[str] = None
    db_password: Optional[str] = None
    db_host: Optional[str] = None
    db_port: Any = None

    def words(self) -> Dict[str, Any]:
        """Return the arguments of the functions of postgres.*."""
        return {
            "runas": self.user,
            "maintenance_db": self.maintenance_db,
            "user": self.db_user,
            "password": self.db_password,
            "host": self.db_host,
            "port": self.db_port,
        }

    def words_without_database(self) -> Dict[str, Any]:
        """Return the arguments of functions that take the database by another argument."""
        return {key: value for key, value in self.words().items() if key != "maintenance_db"}


@dataclass(frozen=True)
class _Nothing:
    """A state with no arguments but those of the server."""


def taken(
    record: Optional[Type[T]], arguments: Mapping[str, Any], what: str
) -> Tuple[T, ServerOptions, Tuple[str, ...]]:
    """Return the state's options, the server's, and a warning for each likely typo."""
    server, rest = split(ServerOptions, arguments)
    chosen: Type[Any] = record or _Nothing
    options, unknown = split(chosen, rest)
    return options, server, likely_typos(chosen, unknown, what)


def attempt(
    context: Context, work: Callable[[], StateResult], expected: str, warnings: Tuple[str, ...]
) -> StateResult:
    """Return the result of *work*; a refusal of the server fails the state.

    In test mode an earlier state that would start the server has not started it, so a missing
    server is no failure.

    Args:
        context: the call's context.
        work: compares and acts.
        expected: sentence about the change, for test mode without a server.
        warnings: added to the result.
    """
    try:
        found = work()
    except NoServerError as problem:
        told = str(problem)
        found = would(f"{expected}, unless it is so: {told}") if context.test else failed(told)
    except (CommandExecutionError, UsageError) as problem:
        found = failed(str(problem))
    return replace(found, warnings=(*found.warnings, *warnings))


def given(options: Any) -> Dict[str, Any]:
    """Return the fields of a record that are not None."""
    values = {one.name: getattr(options, one.name) for one in fields(type(options))}
    return {key: value for key, value in values.items() if value is not None}

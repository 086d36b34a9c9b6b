"""What all states of MariaDB and MySQL share: the connection, and a missing server."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Tuple, Type, TypeVar

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, fields, replace
from catena.core.types import StateResult
from catena.modules.mysql.client import MysqlConnection, NoMysqlError
from catena.modules.shared.arguments import split
from catena.states.answers import failed, likely_typos, would

T = TypeVar("T")


@dataclass(frozen=True)
class NoOptions:
    """A state with no arguments but those of the connection."""


def taken(
    record: Type[T], arguments: Mapping[str, Any], what: str
) -> Tuple[T, Dict[str, Any], Tuple[str, ...]]:
    """Return the state's options, the connection's, and a warning for each likely typo."""
    server, rest = split(MysqlConnection, arguments)
    options, unknown = split(record, rest)
    words = {one.name: getattr(server, one.name) for one in fields(MysqlConnection)}
    return options, words, likely_typos(record, unknown, what)


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
    except NoMysqlError as problem:
        told = str(problem)
        found = would(f"{expected}, unless it is so: {told}") if context.test else failed(told)
    except (CommandExecutionError, UsageError) as problem:
        found = failed(str(problem))
    return replace(found, warnings=(*found.warnings, *warnings))

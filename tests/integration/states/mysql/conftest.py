"""The states of MariaDB against a real server of this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from tests.support.mariadb_server import server

_NUMBERS = itertools.count(1)

Fresh = Callable[[str], str]


class Database:
    """Calls functions and states with the connection to the server of this process."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a function of mysql.*."""
        return self.context.call(f"mysql.{name}", *args, **kwargs)

    def state(
        self, fun: str, name: str, /, *, test: bool = False, **arguments: Any
    ) -> StateResult:
        """Call a state function as a run does, with the guard of test mode."""
        context = self.context.with_(test=test)
        plugin = context.states[fun]
        with context.state_guard(plugin.origin):
            found: StateResult = plugin.call(context, name, **arguments)
        return found


@pytest.fixture
def database(context: Context) -> Database:
    opts = {
        **context.opts,
        "mysql.unix_socket": server().socket,
        "mysql.user": "root",
        "mysql.host": "localhost",
    }
    return Database(context.with_(opts=opts))


@pytest.fixture
def fresh() -> Fresh:
    """Return a maker of names that no other test uses."""
    return lambda stem: f"{stem}{next(_NUMBERS)}"

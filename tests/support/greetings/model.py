"""Records of the engine, made from rows."""

from __future__ import annotations

from typing import NamedTuple

from catena.master.executions.model import Execution, Run


class Greeting(NamedTuple):
    """A greeting that waits for its minion."""

    run: Run
    execution: Execution
    text: str

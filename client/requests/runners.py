"""Functions of the master itself."""

from __future__ import annotations

from typing import Any, Dict

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass, field


@dataclass(frozen=True)
class RunnerCall:
    """Run a function on the master (jobs.*, manage.*, event.send …)."""

    fun: str
    args: tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)


#: The reply is what the function returns.
CALL = Ask("runner.call", RunnerCall, lambda: object)

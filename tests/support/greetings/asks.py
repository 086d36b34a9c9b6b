"""The contract of the engine's verb (`client/requests/greeting.py` of a real engine)."""

from __future__ import annotations

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass


@dataclass(frozen=True)
class GreetingOrder:
    """Greet a minion when its agent comes up."""

    minion: str
    text: str
    #: Seconds for which it waits for somebody's approval; 0: it needs none.
    approval_seconds: float = 0.0


@dataclass(frozen=True)
class GreetingOrdered:
    """The run of a greeting."""

    run: int


ORDER = Ask("greeting.order", GreetingOrder, lambda: GreetingOrdered)

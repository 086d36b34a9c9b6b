"""What happens next to greetings. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from catena.master.executions.engine import AgentStart
from tests.support.greetings.model import Greeting

#: A greeting that waits longer, seconds, is worth a word of `catena doctor`.
LONG_SECONDS = 24 * 3600.0


def concerned(waiting: Mapping[str, object], starts: Iterable[AgentStart]) -> list[AgentStart]:
    """Return the starts of minions for which a greeting waits."""
    return [start for start in starts if start.minion in waiting]


def waits_long(greetings: Iterable[Greeting], now: float) -> Sequence[Greeting]:
    """Return the greetings that were ordered long ago."""
    return [greeting for greeting in greetings if now - greeting.run.created > LONG_SECONDS]

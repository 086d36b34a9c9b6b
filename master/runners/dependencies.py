"""What a runner is given."""

from __future__ import annotations

from dataclasses import dataclass

from catena.master.events.bus import EventBus
from catena.master.gate.views import MinionViews
from catena.master.jobs.views import JobViews
from catena.master.requests.once import UNKEYED, Once
from catena.reactors.engine import Engine


@dataclass(frozen=True, slots=True)
class RunnerParts:
    """The master as a runner sees it."""

    bus: EventBus
    views: JobViews
    minions: MinionViews
    reactor: Engine
    #: Who called.
    user: str
    #: The request, for a function that changes something.
    once: Once = UNKEYED

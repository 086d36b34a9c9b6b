"""What a runner is given."""

from __future__ import annotations

from dataclasses import dataclass

from catena.master.event_bus import EventBus
from catena.master.job_views import JobViews
from catena.master.minion_views import MinionViews
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

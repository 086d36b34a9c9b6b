"""The arguments of a runner."""

from __future__ import annotations

from dataclasses import dataclass

from catena.master.events.bus import EventBus
from catena.master.gate.views import MinionViews
from catena.master.jobs.views import JobViews
from catena.master.requests.once import UNKEYED, Once
from catena.reactors.engine import Reactor


@dataclass(frozen=True, slots=True)
class RunnerParts:
    """The parts of the master that a runner may use."""

    bus: EventBus
    views: JobViews
    minions: MinionViews
    reactor: Reactor
    #: The calling user.
    user: str
    #: The request, for a function that changes something.
    once: Once = UNKEYED

"""Records of the tables that engines share; their fields are in the order of the columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from catena.master.process.clocks import ClockReading

#: A tag and its data, to be recorded as an event in the running transaction.
EventItem = tuple[str, Mapping[str, Any]]


class Movable(NamedTuple):
    """A row with a life cycle, as the decision to move it saw it."""

    id: int
    #: Run to which the row belongs, or None.
    run: int | None
    state: str


class Run(NamedTuple):
    """A requested piece of work. Times are seconds since the epoch."""

    id: int
    engine: str
    #: The engine's own id of the work.
    ref: str
    label: str
    owner: str
    #: The engine's own name of the state.
    state: str
    #: One of the eight common states.
    status: str
    reason: str
    epoch: int
    due: float | None
    #: Both clocks of the master's host when it was scheduled.
    anchor_wall: float
    anchor_mono: float
    anchor_boot: str
    parent_run: int | None
    approval: int | None
    created: float
    started: float | None
    ended: float | None
    #: Number of transitions.
    revision: int

    @property
    def subject(self) -> Movable:
        """Return the run as a Movable."""
        return Movable(self.id, self.id, self.state)

    @property
    def scheduled(self) -> ClockReading:
        """Return both clocks of the master's host when it was scheduled."""
        return ClockReading(self.anchor_wall, self.anchor_mono, self.anchor_boot)


class Execution(NamedTuple):
    """One unit of a run on one minion. Times are seconds since the epoch."""

    id: int
    run: int
    engine: str
    kind: str
    #: The engine's own id of the unit.
    ref: str
    #: The minion on which it runs; both fields None: on the master.
    minion: str | None
    node: str | None
    position: int
    epoch: int
    state: str
    status: str
    reason: str
    attempts: int
    created: float
    started: float | None
    ended: float | None
    retcode: int | None
    comment: str
    changes: Mapping[str, Any] | None

    @property
    def subject(self) -> Movable:
        """Return the execution as a Movable."""
        return Movable(self.id, self.run, self.state)


class Hold(NamedTuple):
    """The current holder of a lease."""

    subject: str
    id: str
    #: Name and incarnation of a process; "": none.
    holder: str
    #: Increases with every new holder.
    epoch: int
    #: End of the lease, seconds since the epoch.
    until: float


class Suspension(NamedTuple):
    """A pause: nothing further of a run is sent, everywhere or to one minion."""

    run: int
    #: "": everywhere.
    minion: str
    who: str
    #: Time of the pause, seconds since the epoch.
    at: float

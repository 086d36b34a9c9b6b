"""Records of the tables that engines share; made from rows, whose columns are in this order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Run(NamedTuple):
    """One piece of work that somebody asked for. Times are seconds since the epoch."""

    id: int
    engine: str
    #: The engine's own id of what runs.
    ref: str
    label: str
    owner: str
    #: The engine's own word.
    state: str
    #: One of the eight common states.
    status: str
    reason: str
    epoch: int
    due: float | None
    #: Both clocks of the master's host when it got its time.
    anchor_wall: float
    anchor_mono: float
    anchor_boot: str
    parent_run: int | None
    approval: int | None
    created: float
    started: float | None
    ended: float | None
    #: Number of moves.
    revision: int


class Execution(NamedTuple):
    """One unit of a run at one place. Times are seconds since the epoch."""

    id: int
    run: int
    engine: str
    kind: str
    #: The engine's own id of the unit.
    ref: str
    #: Where it runs; both None: on the master.
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


class Hold(NamedTuple):
    """Who works on something, and until when nobody else does."""

    subject: str
    id: str
    #: Name and incarnation of a process; "": nobody.
    holder: str
    #: Grows with every new holder.
    epoch: int
    #: Seconds since the epoch.
    until: float


class Suspension(NamedTuple):
    """A run of which nothing further may begin, everywhere or on one minion."""

    run: int
    #: "": everywhere.
    minion: str
    who: str
    #: Seconds since the epoch.
    at: float


class Movable(NamedTuple):
    """What the ledger moves: a row of a life cycle's table, as the decision saw it."""

    id: int
    #: The run that it belongs to; None: none.
    run: int | None
    state: str

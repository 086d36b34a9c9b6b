"""Records of a chain's tables, made from rows, whose columns `rows` selects in this order."""

from __future__ import annotations

from typing import NamedTuple

from catena.master.chains.lifecycle import MinionState
from catena.master.executions.model import Movable
from catena.master.process.clocks import ClockReading

#: States in which a minion works on a run, or is to.
OPEN_MINIONS = (MinionState.sent, MinionState.running, MinionState.waiting)


class ChainRecord(NamedTuple):
    """A chain, with what its newest run says of it. Times are seconds since the epoch."""

    id: int
    label: str
    user: str
    created: float
    #: Whether a run of it was ever dispatched.
    dispatched: bool
    archived: bool
    #: Its newest run; None: it is a draft.
    run: int | None
    state: str
    #: Why it is in this state, for people.
    reason: str
    #: Which attempt this is; 0: a draft.
    epoch: int
    due: float | None
    #: Both clocks of the master's host when it got its time.
    anchor_wall: float
    anchor_mono: float
    anchor_boot: str
    approval: int | None
    ended: float | None

    @property
    def title(self) -> str:
        """Return how a message names it; two of one label differ by their number."""
        return f"chain {self.label!r} ({self.id})"

    @property
    def subject(self) -> Movable:
        """Return its newest run as the ledger moves it."""
        return Movable(self.run or 0, self.run, self.state)

    @property
    def scheduled(self) -> ClockReading:
        """Return both clocks of the master's host when it got its time."""
        return ClockReading(self.anchor_wall, self.anchor_mono, self.anchor_boot)


class ChainExecution(NamedTuple):
    """One action on one minion in one run of its chain. Times are seconds since the epoch."""

    id: int
    run: int
    chain_id: int
    action_id: int
    epoch: int
    #: What a crash during it means: "idempotent", "once" or "reboot".
    kind: str
    minion: str
    sort_order: int
    state: str
    #: "Prerequisite failed", "interrupted", "reboot" while it waits for the boot, ...
    reason: str
    started: float | None
    ended: float | None
    #: 0 before it is dispatched.
    chunk: int
    #: What proves it after its success: none, reboot, agent_upgrade.
    waits_for: str
    #: How long a reboot itself puts it off.
    delay_seconds: float
    #: When it succeeded but for its proof, by both clocks of the master's host.
    picked_up: float | None
    picked_mono: float
    picked_host_boot: str
    picked_host: str
    #: Boot of the minion under which it succeeded.
    boot_id: str

    @property
    def subject(self) -> Movable:
        """Return it as the ledger moves it."""
        return Movable(self.id, self.run, self.state)


class ChainMinion(NamedTuple):
    """One run of a chain on one minion."""

    id: int
    run: int
    chain_id: int
    label: str
    epoch: int
    minion: str
    #: Job that starts it; "" until that job is stored.
    jid: str
    #: Boot that the minion was known to be in last.
    boot_id: str
    state: str
    #: Job that is to make the minion forget the run; "": none is under way.
    fence_jid: str
    fence_tries: int
    #: When the minion answered last that it can't; 0: never.
    fence_at: float
    fence_why: str
    #: Why the minion says that it can't continue this run; "": it has not said so.
    disowned: str
    #: It is carried out over SSH.
    over_ssh: bool

    @property
    def title(self) -> str:
        """Return how a message names its chain."""
        return f"chain {self.label!r} ({self.chain_id})"

    @property
    def open(self) -> bool:
        """Return whether the minion works on it, or is to."""
        return self.state in OPEN_MINIONS

    @property
    def over(self) -> bool:
        """Return whether it has ended and the minion may have to forget it."""
        return self.state in (MinionState.ended, MinionState.lost)

    @property
    def subject(self) -> Movable:
        """Return it as the ledger moves it."""
        return Movable(self.id, self.run, self.state)


class Chunk(NamedTuple):
    """One chunk file of one minion."""

    id: int
    run: int
    chain_id: int
    epoch: int
    minion: str
    number: int
    file: str
    state: str

    @property
    def subject(self) -> Movable:
        """Return it as the ledger moves it."""
        return Movable(self.id, self.run, self.state)


class HistoryLine(NamedTuple):
    """A line of a chain's history, as people see it."""

    #: "chain", "action", "chunk" or "late".
    subject: str
    #: Action id or chunk number; 0 for the chain.
    number: int
    minion: str
    epoch: int
    source: str
    event: str
    target: str
    by: str
    reason: str
    at: float

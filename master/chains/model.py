"""Records of the tables of chains; `rows` selects the columns in the order of the fields."""

from __future__ import annotations

from typing import NamedTuple

from catena.master.chains.lifecycle import MinionState
from catena.master.executions.model import Movable
from catena.master.process.clocks import ClockReading

#: States in which a minion works on a run or will do so.
OPEN_MINIONS = (MinionState.sent, MinionState.running, MinionState.waiting)


class ChainRecord(NamedTuple):
    """A chain with the data of its newest run. Times are in seconds since the epoch."""

    id: int
    label: str
    user: str
    created: float
    #: Whether a run of the chain was ever dispatched.
    dispatched: bool
    archived: bool
    #: Id of the newest run; None: the chain is a draft.
    run: int | None
    state: str
    #: Why the chain is in this state, for people.
    reason: str
    #: Number of the newest run within the chain; 0: the chain is a draft.
    epoch: int
    due: float | None
    #: Both clocks and the boot id of the master's host when the due time was set.
    anchor_wall: float
    anchor_mono: float
    anchor_boot: str
    approval: int | None
    ended: float | None

    @property
    def title(self) -> str:
        """Return how messages name the chain, with its id because labels are not unique."""
        return f"chain {self.label!r} ({self.id})"

    @property
    def subject(self) -> Movable:
        """Return the newest run for the ledger."""
        return Movable(self.run or 0, self.run, self.state)

    @property
    def scheduled(self) -> ClockReading:
        """Return both clocks of the master's host when the due time was set."""
        return ClockReading(self.anchor_wall, self.anchor_mono, self.anchor_boot)


class ChainExecution(NamedTuple):
    """One action on one minion in one run. Times are in seconds since the epoch."""

    id: int
    run: int
    chain_id: int
    action_id: int
    epoch: int
    #: How to recover from a crash during the action (`core.job.ActionKind`).
    kind: str
    minion: str
    sort_order: int
    state: str
    #: "Prerequisite failed", "interrupted", "reboot" while it waits for the boot, ...
    reason: str
    started: float | None
    ended: float | None
    #: Number of the action's chunk; 0 before the dispatch.
    chunk: int
    #: Boundary that must be proven after the action's success: none, reboot, agent_upgrade.
    waits_for: str
    #: Delay that the reboot action itself asks for.
    delay_seconds: float
    #: When the action began to wait for its proof, by both clocks of the master's host then.
    picked_up: float | None
    picked_mono: float
    picked_host_boot: str
    picked_host: str
    #: Boot id of the minion when the action succeeded.
    boot_id: str

    @property
    def subject(self) -> Movable:
        """Return the execution for the ledger."""
        return Movable(self.id, self.run, self.state)


class ChainMinion(NamedTuple):
    """One run of a chain on one minion."""

    id: int
    run: int
    chain_id: int
    label: str
    epoch: int
    minion: str
    #: Job that starts the run; "" until that job is stored.
    jid: str
    #: Last known boot id of the minion.
    boot_id: str
    state: str
    #: Open job that makes the minion remove the run; "": there is none.
    fence_jid: str
    #: Number of such jobs that failed in a row, and the error of the last one.
    fence_tries: int
    #: When the minion answered last that it can't; 0: never.
    fence_at: float
    fence_why: str
    #: Why the minion can't continue this run, as it reported; "": it did not report that.
    disowned: str
    #: Whether the master reaches the host over SSH.
    over_ssh: bool

    @property
    def title(self) -> str:
        """Return how messages name the chain."""
        return f"chain {self.label!r} ({self.chain_id})"

    @property
    def open(self) -> bool:
        """Return whether the minion works on the run or will do so."""
        return self.state in OPEN_MINIONS

    @property
    def over(self) -> bool:
        """Return whether the run has ended; the minion may still have to remove it."""
        return self.state in (MinionState.ended, MinionState.lost)

    @property
    def subject(self) -> Movable:
        """Return the run on the minion for the ledger."""
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
        """Return the chunk for the ledger."""
        return Movable(self.id, self.run, self.state)


class HistoryLine(NamedTuple):
    """A line of a chain's history, for people."""

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

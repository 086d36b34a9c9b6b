"""Meaning of the records in a chain's journal: life cycles as tables, and the fold over records.

Every record contains the boot id, the agent session and the epoch of its writing. The state of a
chain or action is stored nowhere else; it is always computed by the fold.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Dict, Iterable, Mapping, Optional

from catena.core.chain_calls import CLEAN
from catena.core.errors import InvalidStateError
from catena.core.frozen import dataclass, field
from catena.core.fsm import Actor, Kind, Machine, Row
from catena.runtime.journal import JournalDamagedError, Record


class HostChainState(str, Enum):
    """State of a chain on this host."""

    received = "received"
    running = "running"
    waiting = "waiting"
    done = "done"
    failed = "failed"
    interrupted = "interrupted"
    cancelled = "cancelled"


class HostChainEvent(str, Enum):
    """Event in the life of a chain on this host."""

    chunk = "chunk"
    waiting = "waiting"
    done = "done"
    failed = "failed"
    interrupted = "interrupted"
    cancelled = "cancelled"


class ActionState(str, Enum):
    """State of one action of a chain on this host."""

    pending = "pending"
    begun = "begun"
    armed = "armed"
    done = "done"
    failed = "failed"
    interrupted = "interrupted"


class ActionEvent(str, Enum):
    """Event in the life of an action on this host."""

    begin = "begin"
    armed = "armed"
    done = "done"
    failed = "failed"
    interrupted = "interrupted"


def _chain_row(
    source: HostChainState, event: HostChainEvent, why: str
) -> Row[HostChainState, HostChainEvent]:
    target = (
        HostChainState.running if event is HostChainEvent.chunk else HostChainState(event.value)
    )
    actor = Actor.api if event is HostChainEvent.cancelled else Actor.agent
    return Row(source, event, target, actor, why)


CHAIN: Machine[HostChainState, HostChainEvent] = Machine(
    "chain on a minion",
    {
        HostChainState.received: Kind.wait,
        HostChainState.running: Kind.working,
        HostChainState.waiting: Kind.wait,
        HostChainState.done: Kind.final,
        HostChainState.failed: Kind.final,
        HostChainState.interrupted: Kind.final,
        HostChainState.cancelled: Kind.final,
    },
    [HostChainState.received],
    [
        _chain_row(HostChainState.received, HostChainEvent.chunk, "all chunks are here"),
        _chain_row(HostChainState.received, HostChainEvent.cancelled, CLEAN),
        _chain_row(HostChainState.running, HostChainEvent.waiting, "a boundary has to be passed"),
        _chain_row(HostChainState.running, HostChainEvent.done, "the last chunk ended well"),
        _chain_row(HostChainState.running, HostChainEvent.failed, "an action failed"),
        _chain_row(
            HostChainState.running, HostChainEvent.interrupted, "a `once` has no known outcome"
        ),
        _chain_row(HostChainState.running, HostChainEvent.cancelled, CLEAN),
        _chain_row(HostChainState.waiting, HostChainEvent.chunk, "the boundary is proven"),
        _chain_row(HostChainState.waiting, HostChainEvent.done, "a final reboot is proven"),
        _chain_row(HostChainState.waiting, HostChainEvent.failed, "the boundary was refused"),
        _chain_row(HostChainState.waiting, HostChainEvent.cancelled, CLEAN),
    ],
    failures=[HostChainEvent.failed, HostChainEvent.interrupted],
    unfailing={HostChainState.received: "nothing is run before the first chunk begins"},
)


def _action_row(
    source: ActionState, event: ActionEvent, why: str
) -> Row[ActionState, ActionEvent]:
    target = ActionState.begun if event is ActionEvent.begin else ActionState(event.value)
    return Row(source, event, target, Actor.agent, why)


ACTION: Machine[ActionState, ActionEvent] = Machine(
    "action on a minion",
    {
        ActionState.pending: Kind.wait,
        ActionState.begun: Kind.working,
        ActionState.armed: Kind.wait,
        ActionState.done: Kind.final,
        ActionState.failed: Kind.final,
        ActionState.interrupted: Kind.final,
    },
    [ActionState.pending],
    [
        _action_row(ActionState.pending, ActionEvent.begin, "its turn has come"),
        _action_row(ActionState.begun, ActionEvent.begin, "again after a crash"),
        _action_row(ActionState.begun, ActionEvent.armed, "a reboot waits for the chunk's end"),
        _action_row(ActionState.begun, ActionEvent.done, "it ended well"),
        _action_row(ActionState.begun, ActionEvent.failed, "it failed"),
        _action_row(ActionState.begun, ActionEvent.interrupted, "its outcome is unknown"),
        _action_row(ActionState.armed, ActionEvent.begin, "armed again, the chunk goes on"),
        _action_row(ActionState.armed, ActionEvent.done, "the boot id has changed"),
        _action_row(ActionState.armed, ActionEvent.failed, "the reboot was called off"),
    ],
    failures=[ActionEvent.failed, ActionEvent.interrupted],
    unfailing={ActionState.pending: "an action fails after its begin; before, its chain does"},
)


@dataclass
class JournaledAction:
    """One action, computed from its records."""

    state: ActionState = ActionState.pending
    #: Number of begins so far.
    attempt: int = 0
    #: Boot and agent process of the first begin, with which a boundary's proof is compared.
    boot_id: str = ""
    session: str = ""
    #: Key and dict of its state result, once available.
    key: str = ""
    ret: Optional[Dict[str, Any]] = None
    #: For an armed reboot: seconds between the chunk's end and the reboot.
    delay_seconds: int = 0


@dataclass
class JournaledChain:
    """One chain, computed from its journal."""

    state: HostChainState = HostChainState.received
    #: Number of the chunk that runs or ran last; 0: none.
    chunk: int = 0
    actions: Dict[int, JournaledAction] = field(default_factory=dict)
    #: Number of each ended chunk -> its outcome.
    ended: Dict[int, str] = field(default_factory=dict)
    #: Number of each chunk -> the job that began it by a resume, or "".
    jobs: Dict[int, str] = field(default_factory=dict)
    #: How often the agent was asked for the reboot or restart at the end of `chunk`.
    issued: int = 0
    #: Why the boundary at the end of `chunk` cannot be passed; "" if it was not refused.
    refused: str = ""
    #: Why the chain was closed, for people.
    reason: str = ""

    def action(self, action_id: int) -> JournaledAction:
        """Return the view of an action; a pending one if it has no record."""
        return self.actions.setdefault(action_id, JournaledAction())


def fold(records: Iterable[Record]) -> JournaledChain:
    """Return the chain that results from *records*.

    Raises:
        JournalDamagedError: a record has an unknown kind or cannot follow the previous ones.
    """
    view = JournaledChain()
    for record in records:
        apply(view, record)
    return view


def apply(view: JournaledChain, record: Record) -> None:
    """Update *view* by one record.

    Raises:
        JournalDamagedError: see `fold`.
    """
    kind = record.get("kind")
    try:
        handler = _HANDLERS[str(kind)]
        handler(view, record)
    except (KeyError, ValueError, TypeError, InvalidStateError) as error:
        raise JournalDamagedError(
            f"record {record.get('seq')} ({kind}) is not possible here: {error}"
        ) from error


def _received(view: JournaledChain, record: Mapping[str, Any]) -> None:
    """Do nothing: a chain begins in the state received."""


def _chunk(view: JournaledChain, record: Mapping[str, Any]) -> None:
    view.state = CHAIN.replay(view.state, HostChainEvent.chunk)
    view.chunk = int(record["chunk"])
    view.jobs[view.chunk] = str(record.get("job", ""))
    view.issued = 0
    view.refused = ""


def _begin(view: JournaledChain, record: Mapping[str, Any]) -> None:
    action = view.action(record["action"])
    action.state = ACTION.replay(action.state, ActionEvent.begin)
    action.attempt += 1
    if action.attempt == 1:
        action.boot_id, action.session = record["boot_id"], record["session"]


def _armed(view: JournaledChain, record: Mapping[str, Any]) -> None:
    action = view.action(record["action"])
    action.state = ACTION.replay(action.state, ActionEvent.armed)
    action.key, action.ret = record["key"], record["ret"]
    action.delay_seconds = int(record["delay_seconds"])


def _end(view: JournaledChain, record: Mapping[str, Any]) -> None:
    action = view.action(record["action"])
    action.state = ACTION.replay(action.state, ActionEvent(record["outcome"]))
    action.key, action.ret = record["key"], record["ret"]


def _chunk_end(view: JournaledChain, record: Mapping[str, Any]) -> None:
    view.state = CHAIN.replay(view.state, HostChainEvent(record["outcome"]))
    view.ended[int(record["chunk"])] = record["outcome"]


def _issued(view: JournaledChain, record: Mapping[str, Any]) -> None:
    view.issued += 1


def _refused(view: JournaledChain, record: Mapping[str, Any]) -> None:
    view.refused = record["reason"]


def _closed(view: JournaledChain, record: Mapping[str, Any]) -> None:
    view.state = CHAIN.replay(view.state, HostChainEvent(record["outcome"]))
    view.reason = record["reason"]


_HANDLERS = {
    "received": _received,
    "chunk": _chunk,
    "begin": _begin,
    "armed": _armed,
    "end": _end,
    "chunk_end": _chunk_end,
    "issued": _issued,
    "refused": _refused,
    "closed": _closed,
}

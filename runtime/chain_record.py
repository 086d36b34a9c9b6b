"""What the records of a chain's journal mean: life cycles as tables, and the fold over records.

Every record carries the boot id, the agent session and the epoch it was written in. The fold is
the only reader: what a chain or an action stands at is never kept anywhere else.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Dict, Iterable, Mapping, Optional

from catena.core.chain_calls import CLEAN
from catena.core.errors import InvalidStateError
from catena.core.frozen import dataclass, field
from catena.core.fsm import Actor, Kind, Machine, Row
from catena.runtime.journal import JournalDamagedError, Record


class ChainState(str, Enum):
    """Where a chain stands on this host."""

    received = "received"
    running = "running"
    waiting = "waiting"
    done = "done"
    failed = "failed"
    interrupted = "interrupted"
    cancelled = "cancelled"


class ChainEvent(str, Enum):
    """What moves a chain."""

    chunk = "chunk"
    waiting = "waiting"
    done = "done"
    failed = "failed"
    interrupted = "interrupted"
    cancelled = "cancelled"


class ActionState(str, Enum):
    """Where one action of a chain stands on this host."""

    pending = "pending"
    begun = "begun"
    armed = "armed"
    done = "done"
    failed = "failed"
    interrupted = "interrupted"


class ActionEvent(str, Enum):
    """What moves an action."""

    begin = "begin"
    armed = "armed"
    done = "done"
    failed = "failed"
    interrupted = "interrupted"


def _chain_row(source: ChainState, event: ChainEvent, why: str) -> Row[ChainState, ChainEvent]:
    target = ChainState.running if event is ChainEvent.chunk else ChainState(event.value)
    actor = Actor.api if event is ChainEvent.cancelled else Actor.agent
    return Row(source, event, target, actor, why)


CHAIN: Machine[ChainState, ChainEvent] = Machine(
    "chain on a minion",
    {
        ChainState.received: Kind.wait,
        ChainState.running: Kind.working,
        ChainState.waiting: Kind.wait,
        ChainState.done: Kind.final,
        ChainState.failed: Kind.final,
        ChainState.interrupted: Kind.final,
        ChainState.cancelled: Kind.final,
    },
    [ChainState.received],
    [
        _chain_row(ChainState.received, ChainEvent.chunk, "all chunks are here"),
        _chain_row(ChainState.received, ChainEvent.cancelled, CLEAN),
        _chain_row(ChainState.running, ChainEvent.waiting, "a boundary has to be passed"),
        _chain_row(ChainState.running, ChainEvent.done, "the last chunk ended well"),
        _chain_row(ChainState.running, ChainEvent.failed, "an action failed"),
        _chain_row(ChainState.running, ChainEvent.interrupted, "a `once` has no known outcome"),
        _chain_row(ChainState.running, ChainEvent.cancelled, CLEAN),
        _chain_row(ChainState.waiting, ChainEvent.chunk, "the boundary is proven"),
        _chain_row(ChainState.waiting, ChainEvent.done, "a final reboot is proven"),
        _chain_row(ChainState.waiting, ChainEvent.failed, "the boundary was refused"),
        _chain_row(ChainState.waiting, ChainEvent.cancelled, CLEAN),
    ],
    failures=[ChainEvent.failed, ChainEvent.interrupted],
    unfailing={ChainState.received: "nothing is run before the first chunk begins"},
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
class ActionView:
    """One action, folded from its records."""

    state: ActionState = ActionState.pending
    #: Begins so far.
    attempt: int = 0
    #: Boot and agent process of the first begin: what a boundary's proof is compared with.
    boot_id: str = ""
    session: str = ""
    #: Key and dict of its state result, once it has one.
    key: str = ""
    ret: Optional[Dict[str, Any]] = None
    #: Of an armed reboot: how long after the chunk's end, seconds.
    delay_seconds: int = 0


@dataclass
class ChainView:
    """One chain, folded from its journal."""

    state: ChainState = ChainState.received
    #: Chunk that runs, ran last, or 0.
    chunk: int = 0
    actions: Dict[int, ActionView] = field(default_factory=dict)
    #: Outcome by number of each chunk that ended.
    ended: Dict[int, str] = field(default_factory=dict)
    #: Job that began each chunk by a resume; "" for another.
    jobs: Dict[int, str] = field(default_factory=dict)
    #: How often the reboot or restart at the end of `chunk` was handed to the agent.
    issued: int = 0
    #: Why the boundary at the end of `chunk` can't be passed; "" when nobody said so.
    refused: str = ""
    #: Why the chain was closed, for people.
    reason: str = ""

    def action(self, action_id: int) -> ActionView:
        """Return the view of an action, a pending one when no record names it."""
        return self.actions.setdefault(action_id, ActionView())


def fold(records: Iterable[Record]) -> ChainView:
    """Return what *records* come to.

    Raises:
        JournalDamagedError: a record is of no known kind or can't follow those before it.
    """
    view = ChainView()
    for record in records:
        apply(view, record)
    return view


def apply(view: ChainView, record: Record) -> None:
    """Move *view* by one record.

    Raises:
        JournalDamagedError: see `fold`.
    """
    kind = record.get("kind")
    try:
        handler = _HANDLERS[str(kind)]
        handler(view, record)
    except (KeyError, ValueError, TypeError, InvalidStateError) as error:
        raise JournalDamagedError(
            f"record {record.get('seq')} ({kind}) makes no sense here: {error}"
        ) from error


def _received(view: ChainView, record: Mapping[str, Any]) -> None:
    """Nothing to move: a chain is born received."""


def _chunk(view: ChainView, record: Mapping[str, Any]) -> None:
    view.state = CHAIN.next(view.state, ChainEvent.chunk)
    view.chunk = int(record["chunk"])
    view.jobs[view.chunk] = str(record.get("job", ""))
    view.issued = 0
    view.refused = ""


def _begin(view: ChainView, record: Mapping[str, Any]) -> None:
    action = view.action(record["action"])
    action.state = ACTION.next(action.state, ActionEvent.begin)
    action.attempt += 1
    if action.attempt == 1:
        action.boot_id, action.session = record["boot_id"], record["session"]


def _armed(view: ChainView, record: Mapping[str, Any]) -> None:
    action = view.action(record["action"])
    action.state = ACTION.next(action.state, ActionEvent.armed)
    action.key, action.ret = record["key"], record["ret"]
    action.delay_seconds = int(record["delay_seconds"])


def _end(view: ChainView, record: Mapping[str, Any]) -> None:
    action = view.action(record["action"])
    action.state = ACTION.next(action.state, ActionEvent(record["outcome"]))
    action.key, action.ret = record["key"], record["ret"]


def _chunk_end(view: ChainView, record: Mapping[str, Any]) -> None:
    view.state = CHAIN.next(view.state, ChainEvent(record["outcome"]))
    view.ended[int(record["chunk"])] = record["outcome"]


def _issued(view: ChainView, record: Mapping[str, Any]) -> None:
    view.issued += 1


def _refused(view: ChainView, record: Mapping[str, Any]) -> None:
    view.refused = record["reason"]


def _closed(view: ChainView, record: Mapping[str, Any]) -> None:
    view.state = CHAIN.next(view.state, ChainEvent(record["outcome"]))
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

"""What the master answers about chains."""

from __future__ import annotations

from typing import Any, Dict, Tuple, Type, Union

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class ActionView:
    """One action on one minion."""

    action_id: int
    sort_order: int
    kind: str
    title: str
    #: Of the eight states; "" before the chain is scheduled.
    state: str
    #: Queued, Picked Up, Completed or Failed.
    status: str
    reason: str
    comment: str
    #: "3 changed: a, b, c"; "" when nothing did.
    summary: str
    changes: Dict[str, Any]
    #: Seconds since the epoch; 0 before.
    started: float
    ended: float
    chunk: int
    #: Which run of the chain this is from; grows with every retry.
    epoch: int
    #: What the action waits for, for people; "" when it has ended or runs.
    waits: str = ""
    #: When that ends at the latest; 0: it has no end by itself.
    until: float = 0.0


@dataclass(frozen=True)
class MinionView:
    """A chain on one minion."""

    minion: str
    #: The worst or least advanced of its actions' statuses.
    status: str
    #: "waits for the boot", "2 of 5 done", ...: for people.
    note: str
    actions: tuple[ActionView, ...]


@dataclass(frozen=True)
class ChainView:
    """A chain with everything in it."""

    id: int
    label: str
    user: str
    state: str
    reason: str
    epoch: int
    #: Seconds since the epoch; 0 without.
    created: float
    due: float
    ended: float
    approved_by: str
    dispatched: bool
    archived: bool
    #: Jobs that started it, newest first.
    jids: tuple[str, ...]
    minions: tuple[MinionView, ...]
    history: tuple[Dict[str, Any], ...]


@dataclass(frozen=True)
class ChainLine:
    """A chain in a list."""

    id: int
    label: str
    user: str
    state: str
    reason: str
    created: float
    due: float
    actions: int
    minions: int
    #: Newest executions by status.
    counts: Dict[str, int]
    archived: bool


@dataclass(frozen=True)
class ChainMade:
    """A draft that was made or replaced."""

    id: int
    label: str


@dataclass(frozen=True)
class ChainAdded:
    """What an action was added to."""

    sort_order: int
    minions: tuple[str, ...]
    #: Of the minions, in their order.
    action_ids: tuple[int, ...]


@dataclass(frozen=True)
class ChainEdited:
    """How many actions at a sort order were replaced."""

    sort_order: int
    actions: int


@dataclass(frozen=True)
class ChainMoved:
    """Where the entries are now."""

    sort_order: int


@dataclass(frozen=True)
class ChainRemoved:
    """How many entries were removed."""

    removed: int


@dataclass(frozen=True)
class ChainDeleted:
    """The chain that was deleted."""

    deleted: int
    id: int
    label: str


@dataclass(frozen=True)
class ChainChunk:
    """One chunk file."""

    minion: str
    file: str
    sha256: str
    #: Why it ends before the chain does (`core.job.Boundary`).
    boundary: str
    text: str


@dataclass(frozen=True)
class ChainRendering:
    """The chunk files of a chain."""

    chain: int
    label: str
    files: tuple[ChainChunk, ...]
    #: Minions for which nothing is rendered, each with the reason.
    refused: Dict[str, str]


@dataclass(frozen=True)
class ChainPreview:
    """The job that runs a chain in test mode."""

    jid: str
    minions: tuple[str, ...]


@dataclass(frozen=True)
class ChainEnd:
    """The end of a watched chain."""

    id: int
    state: str
    reason: str


@dataclass(frozen=True)
class ChainViewItem(ChainView):
    """A watched chain: the first item, and the last one when it has ended."""

    type: str = "chain"


@dataclass(frozen=True)
class ChainEventItem:
    """An event of a watched chain."""

    tag: str
    data: Dict[str, Any]
    stamp: str
    type: str = "event"


ITEMS: Tuple[Type[Union[ChainViewItem, ChainEventItem]], ...] = (ChainViewItem, ChainEventItem)

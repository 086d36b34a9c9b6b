"""Replies about chains."""

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
    #: Seconds since the epoch; 0 before that.
    started: float
    ended: float
    chunk: int
    #: The run of the chain that this belongs to; increases with every retry.
    epoch: int
    #: What the action waits for, for people; "" when it has ended or runs.
    waits: str = ""
    #: Latest end of that wait, seconds since the epoch; 0: it does not end by itself.
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
class PauseView:
    """A pause of a chain: nothing further of it begins there until it is continued."""

    #: "": everywhere.
    minion: str
    by: str
    #: Seconds since the epoch.
    since: float


@dataclass(frozen=True)
class CleanWaitView:
    """The start of a chain on a minion that can't remove an ended chain; it waits for that."""

    minion: str
    #: The ended chain.
    chain: int
    #: Why the minion can't remove it.
    reason: str
    #: When the start is sent all the same, seconds since the epoch.
    until: float


@dataclass(frozen=True)
class ChainView:
    """A chain with all its details."""

    id: int
    label: str
    user: str
    state: str
    reason: str
    epoch: int
    #: Seconds since the epoch; 0 if not set.
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
    paused: tuple[PauseView, ...] = ()
    cleans: tuple[CleanWaitView, ...] = ()


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
    paused: tuple[PauseView, ...] = ()
    cleans: tuple[CleanWaitView, ...] = ()


@dataclass(frozen=True)
class ChainMade:
    """A draft that was created or replaced."""

    id: int
    label: str


@dataclass(frozen=True)
class ChainAdded:
    """The chain to which an action was added, and the action's ids."""

    sort_order: int
    minions: tuple[str, ...]
    #: One id per minion, in the order of the minions.
    action_ids: tuple[int, ...]


@dataclass(frozen=True)
class ChainEdited:
    """How many actions at a sort order were replaced."""

    sort_order: int
    actions: int


@dataclass(frozen=True)
class ChainMoved:
    """The new position of moved entries."""

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


@dataclass(frozen=True)
class ChainOutputItem:
    """Part of what a running command of a watched chain prints, from the begin of the watch on."""

    minion: str
    #: "stdout", "stderr", or "" if the master stores no more of this job's output.
    stream: str
    text: str
    #: Bytes of output that are missing before *text*.
    missed: int
    type: str = "output"


ChainItem = Union[ChainViewItem, ChainEventItem, ChainOutputItem]
#: Types of the items of a watched chain.
ITEMS: Tuple[Type[ChainItem], ...] = (ChainViewItem, ChainEventItem, ChainOutputItem)

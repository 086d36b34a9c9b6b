"""Action chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass, field
from catena.core.lazy import LazyModule
from catena.core.records import LATER

if TYPE_CHECKING:
    from catena.client.replies import chains as replies
else:
    replies = LazyModule("catena.client.replies.chains")


#: Maximum size of an action's script, and of an agent upgrade's wheel, in bytes.
SCRIPT_BYTES = 1024 * 1024
WHEEL_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class ChainCreate:
    """Make an empty chain."""

    label: str
    #: Although a chain of that label is under way.
    again: bool = field(default=False, metadata=LATER)


@dataclass(frozen=True)
class ChainAction:
    """One action as the user describes it; checked by master.chains.model.

    kind: "script", "cmd", "apply", "highstate", "install", "upgrade", "remove", "upgrade_agent",
    "reboot", "call".
    """

    kind: str
    #: Per kind: script {sha256, name, runas, group, timeout}, cmd {cmd, runas, timeout},
    #: apply {mods, pillar, test, listed: one SLS was given as a list}, highstate {},
    #: install/upgrade/remove {packages: [[name, version] or [name, arch, version]]},
    #: upgrade_agent {sha256, filename | version}, reboot {at_minutes}, call {fun, args, kwargs}.
    data: Dict[str, Any] = field(default_factory=dict)
    #: Override of the kind's crash rule: "idempotent" or "once"; "" keeps the default.
    repeat: str = ""


@dataclass(frozen=True)
class ChainAdd:
    """Append an action for every minion of a target (one Action each, same sort_order)."""

    label: str
    tgt: str
    action: ChainAction
    tgt_type: str = "glob"


@dataclass(frozen=True)
class ChainEdit:
    """Replace the action of all entries at a sort_order."""

    label: str
    sort_order: int
    action: ChainAction


@dataclass(frozen=True)
class ChainMove:
    """Move the entries at one sort_order to another; the others close up."""

    label: str
    sort_order: int
    to: int


@dataclass(frozen=True)
class ChainRemoveEntry:
    """Remove the entries at a sort_order, for all minions or some."""

    label: str
    sort_order: int
    minions: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChainDocument:
    """A whole chain (`catena chain apply FILE`), which replaces the draft of that label.

    Entries carry tgt, tgt_type and the action, in order.
    """

    label: str
    entries: tuple[Dict[str, Any], ...]
    #: Although a chain of that label is under way.
    again: bool = field(default=False, metadata=LATER)


@dataclass(frozen=True)
class ChainSchedule:
    """Schedule a chain."""

    label: str
    #: Seconds since the epoch; 0: now.
    at: float = 0.0
    approve_required: bool = False


@dataclass(frozen=True)
class ChainRef:
    """Any verb that needs only the chain: approve, cancel, retry, show, watch, delete, render.

    A chain is named by its id or its label (the newest of that label). If a label is a number, the
    chain with that id has precedence.
    """

    chain: str


@dataclass(frozen=True)
class ChainResolve:
    """Decide how to proceed with interrupted actions of a failed chain.

    A verdict is "mark_done" (continue after them), "retry" (run them again) or "cancel" (cancel
    the whole chain).
    """

    chain: str
    verdict: str
    #: Only the actions of these minions; (): of all.
    minions: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChainPause:
    """Pause a chain, or continue one that is paused, everywhere or on some minions."""

    chain: str
    #: Only on these; (): everywhere.
    minions: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChainList:
    """Chains, newest first."""

    all: bool = False
    limit: int = 100


CREATE = Ask("chain.create", ChainCreate, lambda: replies.ChainMade)
ADD = Ask("chain.add", ChainAdd, lambda: replies.ChainAdded)
EDIT = Ask("chain.edit", ChainEdit, lambda: replies.ChainEdited)
MOVE = Ask("chain.move", ChainMove, lambda: replies.ChainMoved)
REMOVE_ENTRY = Ask("chain.remove_entry", ChainRemoveEntry, lambda: replies.ChainRemoved)
APPLY = Ask("chain.apply", ChainDocument, lambda: replies.ChainMade)
SCHEDULE = Ask("chain.schedule", ChainSchedule, lambda: replies.ChainLine)
APPROVE = Ask("chain.approve", ChainRef, lambda: replies.ChainLine)
LIST = Ask("chain.list", ChainList, lambda: List[replies.ChainLine], idempotent=True)
SHOW = Ask("chain.show", ChainRef, lambda: replies.ChainView, idempotent=True)
WATCH = Ask(
    "chain.watch",
    ChainRef,
    lambda: replies.ChainEnd,
    streams=lambda: replies.ITEMS,
    idempotent=True,
)
CANCEL = Ask("chain.cancel", ChainRef, lambda: replies.ChainLine)
RETRY = Ask("chain.retry", ChainRef, lambda: replies.ChainLine)
RESOLVE = Ask("chain.resolve", ChainResolve, lambda: replies.ChainLine)
RELEASE = Ask("chain.release", ChainRef, lambda: replies.ChainLine)
PAUSE = Ask("chain.pause", ChainPause, lambda: replies.ChainLine)
CONTINUE = Ask("chain.continue", ChainPause, lambda: replies.ChainLine)
#: Writes the files of a draft; a repetition changes nothing, and no key of it is stored.
RENDER = Ask("chain.render", ChainRef, lambda: replies.ChainRendering)
PREVIEW = Ask("chain.preview", ChainRef, lambda: replies.ChainPreview)
DELETE = Ask("chain.delete", ChainRef, lambda: replies.ChainDeleted)

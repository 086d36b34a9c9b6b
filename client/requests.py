"""What a client may ask the master, one frozen record per verb.

The master's table (`master/gateway`) names for each verb the right that it needs and the handler;
a verb that is not in VERBS does not exist. "-> stream" verbs answer with several items.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Type


@dataclass(frozen=True)
class RunJob:
    """Run a function on the minions of a target. -> stream if *follow*, else {jid, minions}.

    Items: {"type": "new", jid, minions, missing}; {"type": "delivery", minion, state, detail};
    {"type": "progress", minion, seq, kind, data}; {"type": "return", minion, ret (JobReturn)}.
    The reply that ends it: {jid, states: {minion: state}}.
    """

    tgt: str
    fun: str
    tgt_type: str = "glob"
    args: tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)
    metadata: Dict[str, Any] = field(default_factory=dict)
    follow: bool = False
    #: "": all at once; "5" or "20%": that many at a time.
    batch: str = ""
    expiry_seconds: Optional[int] = None
    deadline_seconds: Optional[int] = None
    #: Repeating a request with the same key changes nothing and gives the first answer.
    idempotency_key: str = ""


@dataclass(frozen=True)
class JobList:
    """List jobs, newest first."""

    limit: int = 100
    fun: str = ""
    minion: str = ""
    active: bool = False


@dataclass(frozen=True)
class JobShow:
    """One job: spec, and per minion its delivery, progress and return."""

    jid: str


@dataclass(frozen=True)
class JobWatch:
    """Follow a job from its start. -> stream, as RunJob."""

    jid: str


@dataclass(frozen=True)
class JobCancelRequest:
    """Cancel a job on every minion, or on those named."""

    jid: str
    minions: tuple[str, ...] = ()


@dataclass(frozen=True)
class EventWatch:
    """Events by tag glob. -> stream of {seq, tag, data, stamp, source}."""

    tag: str = "*"
    #: First event after this position; -1: only new ones.
    after: int = -1
    #: End after this many; 0: never.
    count: int = 0


@dataclass(frozen=True)
class EventSend:
    """Put an event on the bus as the calling user."""

    tag: str
    data: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyList:
    """Keys by state: {state: [{id, fingerprint, address, since, machine_id, conflict}]}."""

    match: str = "*"


@dataclass(frozen=True)
class KeyChange:
    """Accept, reject, delete or rotate keys by id glob. Reply: {"changed": [ids]}."""

    action: str
    match: str
    #: Also keys that are in another state than the action's usual one.
    include: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeyFinger:
    """Fingerprints: {"master": ..., "minions": {id: ...}}."""

    match: str = "*"


@dataclass(frozen=True)
class TokenCreate:
    """Make a one-time enrol token: {"token": ..., "expires": ...}. Shown once, stored hashed."""

    #: Only for this id; "" for any.
    id: str = ""
    valid_seconds: int = 3600


@dataclass(frozen=True)
class MinionList:
    """Minions: [{id, up, since, version, boot_id, address, chain, conflict}]."""

    tgt: str = "*"
    tgt_type: str = "glob"


@dataclass(frozen=True)
class MinionShow:
    """One minion with grains, jobs, chain queue."""

    id: str


@dataclass(frozen=True)
class RunnerCall:
    """Run a function on the master (jobs.*, manage.*, event.send …)."""

    fun: str
    args: tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BlobPut:
    """One piece of a file that a later request names by its SHA-256."""

    sha256: str
    index: int
    count: int
    data: bytes


@dataclass(frozen=True)
class ChainCreate:
    """Make an empty chain. Reply: {"id", "label"}."""

    label: str


@dataclass(frozen=True)
class ChainAction:
    """One action as a person describes it; checked by master.chains.model.

    kind: "script", "cmd", "apply", "highstate", "install", "upgrade", "remove", "upgrade_agent",
    "reboot", "call".
    """

    kind: str
    #: Per kind: script {sha256, name, runas, group, timeout}, cmd {cmd, runas, timeout},
    #: apply {mods, pillar, test}, highstate {}, install/upgrade/remove {packages: [[name,
    #: version]]}, upgrade_agent {sha256, filename | version}, reboot {at_minutes}, call {fun,
    #: args, kwargs}.
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
    """A whole chain at once (`catena chain apply FILE`), in place of an undispatched one.

    Entries carry tgt, tgt_type and the action, in order.
    """

    label: str
    entries: tuple[Dict[str, Any], ...]


@dataclass(frozen=True)
class ChainSchedule:
    """Schedule a chain. Reply: the chain as ChainShow."""

    label: str
    #: Seconds since the epoch; 0: now.
    at: float = 0.0
    approve_required: bool = False


@dataclass(frozen=True)
class ChainRef:
    """Any verb that needs only the chain: approve, cancel, retry, show, watch, delete, render.

    A chain is named by its id or its label (the newest of that label).
    """

    chain: str


@dataclass(frozen=True)
class ChainList:
    """Chains, newest first."""

    all: bool = False
    limit: int = 100


#: Verb -> record. Verbs of ChainRef: see each name.
VERBS: Mapping[str, Type[Any]] = {
    "job.run": RunJob,
    "job.list": JobList,
    "job.show": JobShow,
    "job.watch": JobWatch,
    "job.cancel": JobCancelRequest,
    "event.watch": EventWatch,
    "event.send": EventSend,
    "key.list": KeyList,
    "key.change": KeyChange,
    "key.finger": KeyFinger,
    "key.token": TokenCreate,
    "minion.list": MinionList,
    "minion.show": MinionShow,
    "runner.call": RunnerCall,
    "blob.put": BlobPut,
    "chain.create": ChainCreate,
    "chain.add": ChainAdd,
    "chain.edit": ChainEdit,
    "chain.move": ChainMove,
    "chain.remove_entry": ChainRemoveEntry,
    "chain.apply": ChainDocument,
    "chain.schedule": ChainSchedule,
    "chain.approve": ChainRef,
    "chain.list": ChainList,
    "chain.show": ChainRef,
    "chain.watch": ChainRef,
    "chain.cancel": ChainRef,
    "chain.retry": ChainRef,
    "chain.release": ChainRef,
    "chain.render": ChainRef,
    "chain.preview": ChainRef,
    "chain.delete": ChainRef,
}

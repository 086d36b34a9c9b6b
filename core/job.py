"""What a job is, on its way to a host and back. Shared by master, minion and SSH push."""

from __future__ import annotations

from enum import Enum
from typing import Any, Dict, Optional

from catena.core.frozen import dataclass, field
from catena.core.records import LATER

#: A job that nobody bounded is killed after this long. Salt has no bound; a hung job then holds
#: its minion's queue for ever (complaint 12).
DEFAULT_DEADLINE_SECONDS = 12 * 3600
DEFAULT_OUTPUT_LIMIT = 16 * 1024 * 1024
#: How long a master waits for the boot of a chain, if nobody says otherwise.
BOUNDARY_SECONDS = 1800


class ActionKind(str, Enum):
    """What a crash between begin and end means for an action (`reliability.md` 3.2)."""

    idempotent = "idempotent"  #: run it again
    once = "once"  #: outcome unknown: stop and ask
    reboot = "reboot"  #: a new boot id is the proof
    agent_upgrade = "agent_upgrade"  #: the running agent's version is the proof


class Boundary(str, Enum):
    """Why a chunk ends before the chain does."""

    none = "none"
    reboot = "reboot"
    agent_upgrade = "agent_upgrade"


@dataclass(frozen=True)
class ActionManifest:
    """One action of a chunk."""

    action_id: int
    #: The state's id in the chunk file, mgr_actionchain_<C>_action_<A>_chunk_<N>.
    state_id: str
    kind: ActionKind


@dataclass(frozen=True)
class ChunkManifest:
    """One chunk file of a chain for one minion."""

    #: Counted from 1.
    number: int
    #: SLS name, actionchains.actionchain_<C>_<MACHINE>_<N>.
    sls: str
    #: SHA-256 of the file's bytes, hex.
    sha256: str
    size: int
    boundary: Boundary
    actions: tuple[ActionManifest, ...]


@dataclass(frozen=True)
class ChainManifest:
    """What a minion must know of a chain beside the text of its chunks."""

    chain_id: int
    machine_id: str
    #: Grows with every (re)assignment and cancel; a minion refuses a lower one.
    epoch: int
    chunks: tuple[ChunkManifest, ...]
    #: Go on without the master after this many seconds; None: only on the master's word.
    local_resume_seconds: Optional[int] = None
    #: How long its master waits for a boot, or for a new agent, before it gives the chain up;
    #: None: BOUNDARY_SECONDS.
    boundary_seconds: Optional[int] = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class FunctionCall:
    """A function, its arguments and its target, as the caller gives them.

    Records that travel or are stored (RunJob, JobSpec, Reaction) have these fields among their
    own, so that older versions read them. `of` takes a call out of such a record, and `fields`
    puts it into one.
    """

    fun: str
    args: tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)
    tgt: str = ""
    tgt_type: str = "glob"
    #: Free data that comes back with the events (Salt's `metadata`).
    metadata: Dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Any) -> FunctionCall:
        """Return the call in a record, or a row of the store, that has its fields."""
        return cls(
            record.fun,
            tuple(record.args),
            record.kwargs,
            record.tgt,
            record.tgt_type,
            record.metadata,
        )

    def fields(self) -> Dict[str, Any]:
        """Return the fields by name, to make a record that has them."""
        return {
            "fun": self.fun,
            "args": self.args,
            "kwargs": self.kwargs,
            "tgt": self.tgt,
            "tgt_type": self.tgt_type,
            "metadata": self.metadata,
        }


@dataclass(frozen=True)
class JobSpec:
    """One function call on one or many hosts."""

    jid: str
    fun: str
    args: tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)
    #: Who asked, as the master authenticated it.
    user: str = "root"
    tgt: str = ""
    tgt_type: str = "glob"
    #: Wall clock, seconds since the epoch: when it was asked (shown) and until when it may start.
    issued: float = 0.0
    not_after: float = 0.0
    deadline_seconds: int = DEFAULT_DEADLINE_SECONDS
    output_limit: int = DEFAULT_OUTPUT_LIMIT
    #: Fencing: a minion refuses a chain job whose epoch is lower than one it has seen.
    epoch: int = 0
    #: Present when fun is mgractionchains.start or resume of a chain this master scheduled.
    chain: Optional[ChainManifest] = None
    #: Free data that comes back with the events (Salt's `metadata`).
    metadata: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JobReturn:
    """What a job came to on one host."""

    jid: str
    fun: str
    fun_args: tuple[Any, ...]
    success: bool
    retcode: int
    #: The function's value; for state functions Salt's dict of state results.
    value: Any
    started: float
    duration_seconds: float
    #: Name of the outputter that shows it best ("highstate", "nested"), or "".
    out: str = ""
    #: True when the value was cut at the output limit.
    truncated: bool = False
    #: Boot of the host in which it ended; "" where the sender does not say. A return that was
    #: kept over a reboot is thereby known to be older than it.
    boot_id: str = ""
    #: Epoch of each chain whose actions are in the value, by its id: a job that resumes knows of
    #: no chain, and may be older than the run that it goes on with.
    epochs: Dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class JobProgress:
    """One step of a running job, in the order of *seq* within (jid, minion)."""

    jid: str
    #: Counted from 1.
    seq: int
    #: "queued" (data: position), "started", "state" (data: key, ret, run_num, total),
    #: "action" (data: action_id, event: begin|end, result, ...), "note" (data: text),
    #: "transfer" (of a large file; data: path, done, total, in bytes).
    kind: str
    data: Dict[str, Any] = field(default_factory=dict)
    when: float = 0.0

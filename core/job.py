"""A job, its progress and its return. Shared by master, minion and SSH push."""

from __future__ import annotations

from enum import Enum
from typing import Any, Dict, Mapping, Optional

from catena.core.frozen import dataclass, field
from catena.core.records import LATER, encode, formerly

#: Deadline in seconds of a job that has none of its own. Salt has no deadline, so a job that hangs
#: blocks its minion's queue for ever (complaint 12).
DEFAULT_DEADLINE_SECONDS = 12 * 3600
DEFAULT_OUTPUT_LIMIT = 16 * 1024 * 1024
#: Default wait in seconds for a boot that a chain requires.
BOUNDARY_SECONDS = 1800


class ActionKind(str, Enum):
    """How an action recovers from a crash between its begin and end (`reliability.md` 3.2)."""

    idempotent = "idempotent"  #: run it again
    once = "once"  #: outcome unknown: stop and ask
    reboot = "reboot"  #: a new boot id is the proof
    agent_upgrade = "agent_upgrade"  #: the running agent's version is the proof


class Boundary(str, Enum):
    """Why a chunk ends before its chain does."""

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

    #: Number of the chunk, from 1.
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
    """The data about a chain that a minion needs, except the text of its chunks."""

    chain_id: int
    machine_id: str
    #: Increases with every (re)assignment and cancel; a minion refuses a lower one.
    epoch: int
    chunks: tuple[ChunkManifest, ...]
    #: Seconds after which the minion continues without the master; None: only when the master
    #: asks.
    local_resume_seconds: Optional[int] = None
    #: Seconds that the master waits for a boot or a new agent before the chain fails; None:
    #: BOUNDARY_SECONDS.
    boundary_seconds: Optional[int] = field(default=None, metadata=LATER)


#: The kind of a payload whose body is a ChainManifest.
CHAIN = "chain"


@dataclass(frozen=True)
class Payload:
    """What a job carries beside its call: its part of a larger piece of work.

    Queue, wire and store carry a payload of any kind. The one that makes it and the function that
    runs it know what the body is; `core.payloads` lists the kinds.
    """

    kind: str
    #: The piece of work, among those of its kind. On a minion its jobs hold back those of others.
    number: int
    #: Grows with every assignment of the work.
    epoch: int
    #: The record of the kind, as plain data.
    body: Dict[str, Any]


def _of_chain(manifest: Any) -> Dict[str, Any]:
    """Return plain data of the payload for the manifest that wire numbers below 5 carry."""
    known: Mapping[str, Any] = manifest if isinstance(manifest, dict) else {}
    number, epoch = known.get("chain_id"), known.get("epoch")
    return {"kind": CHAIN, "number": number, "epoch": epoch, "body": manifest}


@dataclass(frozen=True)
class FunctionCall:
    """A function, its arguments and its target, as the caller gives them.

    Records that are sent or stored (RunJob, JobSpec, Reaction) have these fields among their own,
    so that older versions can read them. `of` extracts a call from such a record, and `fields`
    returns the fields to make one.
    """

    fun: str
    args: tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)
    tgt: str = ""
    tgt_type: str = "glob"
    #: Arbitrary data that is repeated in the events (Salt's `metadata`).
    metadata: Dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Any) -> FunctionCall:
        """Return the call in a record, or in a row of the store, that has its fields."""
        return cls(
            record.fun,
            tuple(record.args),
            record.kwargs,
            record.tgt,
            record.tgt_type,
            record.metadata,
        )

    def fields(self) -> Dict[str, Any]:
        """Return the fields by name, as arguments of a record that has them."""
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
    #: The user who requested it, as authenticated by the master.
    user: str = "root"
    tgt: str = ""
    tgt_type: str = "glob"
    #: Wall clock, seconds since the epoch: time of the request (for display), and latest start.
    issued: float = 0.0
    not_after: float = 0.0
    deadline_seconds: int = DEFAULT_DEADLINE_SECONDS
    output_limit: int = DEFAULT_OUTPUT_LIMIT
    #: That of the payload; 0 without one.
    epoch: int = 0
    #: Arbitrary data that is repeated in the events (Salt's `metadata`).
    metadata: Dict[str, Any] = field(default_factory=dict)
    #: Present where the job is part of a larger piece of work, such as the start of a chain.
    #: Agents of wire numbers below 5 know the field `chain` in its place: the body of a payload
    #: of the kind "chain", or null.
    payload: Optional[Payload] = field(default=None, metadata=formerly(CHAIN, _of_chain))

    @classmethod
    def asked_here(
        cls,
        jid: str,
        call: FunctionCall,
        user: str,
        issued: float,
        *,
        deadline_seconds: int = DEFAULT_DEADLINE_SECONDS,
        output_limit: int = DEFAULT_OUTPUT_LIMIT,
    ) -> JobSpec:
        """Return a job that a command on this host asks for itself, without a master.

        Its arguments are those that would arrive from a master.

        Args:
            jid: the new job.
            call: what is to be run; its target stays empty.
            user: the user that asks.
            issued: wall clock, seconds since the epoch.
            deadline_seconds: after which the job is ended.
            output_limit: bytes that its return may have.
        """
        return cls(
            jid,
            call.fun,
            tuple(encode(call.args)),
            encode(call.kwargs),
            user=user,
            issued=issued,
            deadline_seconds=deadline_seconds,
            output_limit=output_limit,
        )


@dataclass(frozen=True)
class JobReturn:
    """The outcome of a job on one host."""

    jid: str
    fun: str
    fun_args: tuple[Any, ...]
    success: bool
    retcode: int
    #: The function's return value; for state functions Salt's dict of state results.
    value: Any
    started: float
    duration_seconds: float
    #: Name of the outputter that suits the value ("highstate", "nested"), or "".
    out: str = ""
    #: Whether the value was truncated at the output limit.
    truncated: bool = False
    #: Boot of the host in which it ended; "" if unknown. It shows that a return stored across a
    #: reboot is older than the reboot.
    boot_id: str = ""
    #: Chain id -> epoch, for each chain with actions in the value. A job that resumes has no chain
    #: of its own and may be older than the run that it continues.
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

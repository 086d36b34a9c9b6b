"""Every message that crosses a socket of catena, as a frozen record.

The number in MESSAGES is the type byte on the wire and never changes its meaning; a new message
takes a new number. Which side may send a message on which socket is in ALLOWED: the receiver
refuses everything else (attack row 2020-11651). The table for readers is
`docs/reference/wire.md`, made from this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Type

from catena.core.job import JobProgress, JobReturn, JobSpec


@dataclass(frozen=True)
class EnrolProbe:
    """A minion that knows no master key asks for it."""


@dataclass(frozen=True)
class EnrolOffer:
    """The master's public key; to be trusted only by its fingerprint or on first use."""

    #: CURVE public key, 40 characters of Z85.
    master_key: str
    #: Version of the master.
    version: str


@dataclass(frozen=True)
class EnrolRequest:
    """A minion asks for its key (the one it connects with) to be accepted under an id."""

    id: str
    machine_id: str
    version: str
    #: HMAC-SHA256, hex, keyed by SHA-256(token), over minion key, master key and id; "" without.
    token_proof: str = ""


@dataclass(frozen=True)
class EnrolReply:
    """What the master knows of a key."""

    #: "accepted", "pending", "rejected", "denied".
    state: str
    #: For people: why, and what to do.
    reason: str
    master_key: str
    #: Ask again after this long; 0 with "accepted".
    retry_seconds: float


@dataclass(frozen=True)
class Hello:
    """First message of a connection: who this is and what it still has."""

    id: str
    machine_id: str
    boot_id: str
    #: Random id of the agent process.
    session: str
    version: str
    #: "minion" receives jobs; "caller" (catena call) only asks.
    role: str
    #: True for the first Hello of an agent process: the master makes the start event of it.
    first: bool
    grains: Dict[str, Any]
    #: jids received and not yet returned and acked; the master does not send them again.
    open_jobs: tuple[str, ...]
    #: What the resume file says, as mgractionchains.get_pending_resume; {} without one.
    pending_resume: Dict[str, Any] = field(default_factory=dict)
    #: Version of the wire protocol that the sender prefers.
    wire: int = 1


@dataclass(frozen=True)
class Welcome:
    """The Hello is taken; jobs may follow."""

    master_version: str
    ping_interval_seconds: int


@dataclass(frozen=True)
class Refused:
    """The connection is not taken; nothing else will be answered on it."""

    #: "duplicate_key", "duplicate_machine", "revoked", "busy", "version", "identity".
    code: str
    reason: str
    retry_seconds: float


@dataclass(frozen=True)
class Ping:
    """Either side's program (not its I/O thread) is alive."""

    #: Counts up per connection; the Pong repeats it.
    seq: int


@dataclass(frozen=True)
class Pong:
    """Answer to a Ping."""

    seq: int


@dataclass(frozen=True)
class GrainsUpdate:
    """The minion's grains, collected anew."""

    grains: Dict[str, Any]


@dataclass(frozen=True)
class JobOrder:
    """Do this. Sent again until received; done once by jid."""

    spec: JobSpec


@dataclass(frozen=True)
class JobReceived:
    """The order is durable on the minion (or was known before)."""

    jid: str
    #: 0: starts now; n: waits behind n others.
    position: int


@dataclass(frozen=True)
class JobRejected:
    """The order will not be run: expired, fenced, or malformed."""

    jid: str
    reason: str


@dataclass(frozen=True)
class JobCancel:
    """Stop a job and its process tree, or drop it from the queue."""

    jid: str
    reason: str


@dataclass(frozen=True)
class JobProgressed:
    """One step of a running job. Not acked: the return has it all again."""

    progress: JobProgress


@dataclass(frozen=True)
class JobReturned:
    """A job's outcome; repeated until ReturnStored."""

    ret: JobReturn


@dataclass(frozen=True)
class ReturnStored:
    """The return is committed; the minion may forget it."""

    jid: str


@dataclass(frozen=True)
class ReturnPart:
    """One piece of an encoded JobReturned that is too large for one frame (bulk socket)."""

    jid: str
    #: SHA-256 of the whole, hex.
    sha256: str
    index: int
    count: int
    data: bytes


@dataclass(frozen=True)
class EventFired:
    """A minion's own event; repeated until EventStored."""

    #: Unique per minion; the key of deduplication.
    event_id: str
    tag: str
    data: Dict[str, Any]


@dataclass(frozen=True)
class EventStored:
    """The event is committed."""

    event_id: str


@dataclass(frozen=True)
class PillarRequest:
    """Compile my pillar. Whose it is comes from the connection, never from here."""

    saltenv: str = ""
    pillarenv: str = ""
    #: Merged over the result (Salt's pillar= on the command line).
    override: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PillarReply:
    """Pillar, or why there is none."""

    pillar: Dict[str, Any]
    #: One text per fault, naming file and line; not empty: the pillar must not be used.
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class ManifestRequest:
    """Which files does an environment have for me (bulk socket)."""

    saltenv: str


@dataclass(frozen=True)
class ManifestReply:
    """The file list, as a blob to be fetched with ChunkRequest(path="")."""

    sha256: str
    size: int
    environments: tuple[str, ...]


@dataclass(frozen=True)
class ChunkRequest:
    """A piece of one file (bulk socket)."""

    saltenv: str
    #: Path below the root; "" for the manifest itself.
    path: str
    #: The content that is wanted; if the file has changed since, the answer is a Failure.
    sha256: str
    offset: int


@dataclass(frozen=True)
class ChunkReply:
    """Up to CHUNK_BYTES of a file from *offset*."""

    sha256: str
    offset: int
    data: bytes


@dataclass(frozen=True)
class FilePush:
    """One piece of a file that a minion sends (cp.push; only where `file_recv` allows)."""

    path: str
    sha256: str
    index: int
    count: int
    data: bytes


@dataclass(frozen=True)
class KeyRotate:
    """Master to minion: make a new key pair and announce it."""


@dataclass(frozen=True)
class KeyAnnounce:
    """Minion to master: my next public key. Both are valid until the new one's first use."""

    public_key: str


@dataclass(frozen=True)
class KeyTaken:
    """Master to minion: the announced key is stored; reconnect with it."""

    public_key: str


@dataclass(frozen=True)
class Goodbye:
    """The sender stops on purpose."""

    reason: str


@dataclass(frozen=True)
class Failure:
    """A request could not be served."""

    #: Name of the CatenaError class; decides the exit code.
    code: str
    message: str


@dataclass(frozen=True)
class ClientRequest:
    """A local client asks the master (or the minion daemon) over its unix socket."""

    #: Name in the receiver's table of requests.
    verb: str
    params: Dict[str, Any]


@dataclass(frozen=True)
class ClientItem:
    """One of several answers; more follow until ClientReply or Failure."""

    value: Any


@dataclass(frozen=True)
class ClientReply:
    """The last (or only) answer."""

    value: Any


@dataclass(frozen=True)
class ClientStop:
    """The client wants no more items of the request that this replies to."""


#: Type byte -> record.
MESSAGES: Mapping[int, Type[Any]] = {
    1: EnrolProbe,
    2: EnrolOffer,
    3: EnrolRequest,
    4: EnrolReply,
    10: Hello,
    11: Welcome,
    12: Refused,
    13: Ping,
    14: Pong,
    15: GrainsUpdate,
    16: Goodbye,
    17: Failure,
    20: JobOrder,
    21: JobReceived,
    22: JobRejected,
    23: JobCancel,
    24: JobProgressed,
    25: JobReturned,
    26: ReturnStored,
    27: ReturnPart,
    30: EventFired,
    31: EventStored,
    40: PillarRequest,
    41: PillarReply,
    50: ManifestRequest,
    51: ManifestReply,
    52: ChunkRequest,
    53: ChunkReply,
    54: FilePush,
    60: KeyRotate,
    61: KeyAnnounce,
    62: KeyTaken,
    70: ClientRequest,
    71: ClientItem,
    72: ClientReply,
    73: ClientStop,
}

#: (socket, receiver) -> what may arrive there.
ALLOWED: Mapping[tuple[str, str], frozenset[Type[Any]]] = {
    ("enrol", "master"): frozenset({EnrolProbe, EnrolRequest}),
    ("enrol", "minion"): frozenset({EnrolOffer, EnrolReply, Failure}),
    ("control", "master"): frozenset(
        {
            Hello,
            Ping,
            Pong,
            GrainsUpdate,
            Goodbye,
            JobReceived,
            JobRejected,
            JobProgressed,
            JobReturned,
            EventFired,
            PillarRequest,
            KeyAnnounce,
        }
    ),
    ("control", "minion"): frozenset(
        {
            Welcome,
            Refused,
            Ping,
            Pong,
            Goodbye,
            Failure,
            JobOrder,
            JobCancel,
            ReturnStored,
            EventStored,
            PillarReply,
            KeyRotate,
            KeyTaken,
        }
    ),
    ("bulk", "master"): frozenset({ManifestRequest, ChunkRequest, ReturnPart, FilePush}),
    ("bulk", "minion"): frozenset({ManifestReply, ChunkReply, ReturnStored, Failure}),
    ("local", "master"): frozenset({ClientRequest, ClientStop}),
    ("local", "client"): frozenset({ClientItem, ClientReply, Failure}),
    # Job processes and `catena call` to the daemon of their host: relayed to the master.
    ("local", "minion"): frozenset(
        {
            ClientRequest,
            ClientStop,
            PillarRequest,
            ManifestRequest,
            ChunkRequest,
            EventFired,
            GrainsUpdate,
            JobProgressed,
            FilePush,
        }
    ),
    ("local", "job"): frozenset(
        {
            ClientItem,
            ClientReply,
            Failure,
            PillarReply,
            ManifestReply,
            ChunkReply,
            EventStored,
        }
    ),
}


@dataclass(frozen=True)
class Envelope:
    """A message with its header."""

    #: 16 random bytes.
    msg_id: bytes
    #: msg_id of the message that this answers, or 16 zero bytes.
    reply_to: bytes
    message: Any
    #: Version byte.
    version: int = 1

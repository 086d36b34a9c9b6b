"""A session between minion and master: greeting, heartbeat, keys (control socket)."""

from __future__ import annotations

from typing import Any, Dict

from catena.core.frozen import dataclass, field
from catena.core.records import LATER

#: Protocol features of this agent beyond the first version, as the number in its Hello. The
#: master sends an agent nothing that requires a higher number.
#:
#: 2: `mgractionchains.resume` and `clean` take `actionchain_id` and `epoch`.
#: 3: chunks of transactional systems, in which a reboot is an argument of `mgractionchains.next`.
#: 4: a Welcome that says how much output of running jobs the master accepts.
#: 5: a job's payload with its kind, in place of the field `chain`.
AGENT_WIRE = 5
#: First number of agents whose `resume` and `clean` name a run.
NAMED_RUNS = 2
#: First number of agents that run chunks of transactional systems.
TRANSACTIONAL_CHUNKS = 3
#: First number of agents that send the output of running jobs.
JOB_OUTPUT = 4
#: First number of agents that know a job's `payload`.
PAYLOADS = 5

#: Protocol features of this master beyond the first version, as the number in its Welcome to
#: agents of at least JOB_OUTPUT.
#:
#: 2: a JobReceived that says what a job waits for.
MASTER_WIRE = 2
#: First number of masters that accept the reason why a job is queued.
NAMED_QUEUE = 2


@dataclass(frozen=True)
class Hello:
    """First message of a connection: the minion's identity and its unfinished work."""

    id: str
    machine_id: str
    boot_id: str
    #: Random id of the agent process.
    session: str
    version: str
    #: "minion" receives jobs; "caller" (catena call) only sends requests.
    role: str
    #: True for the first Hello of an agent process; the master then fires the start event.
    first: bool
    grains: Dict[str, Any]
    #: jids received but without an acknowledged return; the master does not send them again.
    open_jobs: tuple[str, ...]
    #: Content of the resume file, as from mgractionchains.get_pending_resume; {} if there is none.
    pending_resume: Dict[str, Any] = field(default_factory=dict)
    #: The sender's AGENT_WIRE; 1: an agent older than this field.
    wire: int = 1


@dataclass(frozen=True)
class Welcome:
    """Accepts the Hello; jobs may follow."""

    master_version: str
    ping_interval_seconds: int
    #: Maximum rate of the minion's events per second; 0: not specified.
    events_per_second: int = 0
    #: Maximum rate of running jobs' output in bytes per second; 0: send none. Only agents of
    #: JOB_OUTPUT know this field.
    output_per_second: int = field(default=0, metadata=LATER)
    #: Bytes of output that the master stores per job and minion.
    output_limit: int = field(default=0, metadata=LATER)
    #: The master's MASTER_WIRE; only agents of JOB_OUTPUT know this field.
    wire: int = field(default=1, metadata=LATER)


@dataclass(frozen=True)
class Refused:
    """Refuses the connection; the master answers nothing else on it."""

    #: "duplicate_key", "duplicate_machine", "revoked", "busy", "version", "identity".
    code: str
    reason: str
    retry_seconds: float


@dataclass(frozen=True)
class Ping:
    """Checks that the other side's program, not only its I/O thread, is alive."""

    #: Incremented per connection; the Pong repeats it.
    seq: int


@dataclass(frozen=True)
class Pong:
    """Answers a Ping."""

    seq: int


@dataclass(frozen=True)
class GrainsUpdate:
    """The minion's grains after they were collected again."""

    grains: Dict[str, Any]


@dataclass(frozen=True)
class Goodbye:
    """The sender stops intentionally."""

    reason: str


@dataclass(frozen=True)
class KeyRotate:
    """Tells a minion to make a new key pair and announce it."""


@dataclass(frozen=True)
class KeyAnnounce:
    """Announces the minion's next public key. The old key is valid until the new one is used."""

    public_key: str


@dataclass(frozen=True)
class KeyTaken:
    """Confirms that the announced key is stored; the minion reconnects with it."""

    public_key: str

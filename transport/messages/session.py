"""A connection between minion and master: greeting, heartbeat, keys (control socket)."""

from __future__ import annotations

from typing import Any, Dict

from catena.core.frozen import dataclass, field
from catena.core.records import LATER

#: What this agent understands beyond the first wire, as the number that its Hello says. An agent
#: gets nothing that is newer than its number.
#:
#: 2: `mgractionchains.resume` and `clean` take `actionchain_id` and `epoch`.
#: 3: chunks of transactional systems, in which a reboot is an argument of `mgractionchains.next`.
#: 4: a Welcome that says how much output of running jobs the master takes.
AGENT_WIRE = 4
#: The first number of an agent whose `resume` and `clean` name a run.
NAMED_RUNS = 2
#: The first number of an agent that runs chunks of transactional systems.
TRANSACTIONAL_CHUNKS = 3
#: The first number of an agent that sends the output of running jobs.
JOB_OUTPUT = 4

#: What this master understands beyond the first wire, as the number that its Welcome says to
#: agents of at least JOB_OUTPUT.
#:
#: 2: a JobReceived that says what a job waits for.
MASTER_WIRE = 2
#: The first number of a master that takes what a queued job waits for.
NAMED_QUEUE = 2


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
    #: What the sender understands (AGENT_WIRE); 1: an agent of before that number was told.
    wire: int = 1


@dataclass(frozen=True)
class Welcome:
    """The Hello is taken; jobs may follow."""

    master_version: str
    ping_interval_seconds: int
    #: Events that the minion may tell in a second; 0: it is not said.
    events_per_second: int = 0
    #: Bytes of running jobs' output that the minion may send in a second; 0: none. Only agents of
    #: JOB_OUTPUT know this field.
    output_per_second: int = field(default=0, metadata=LATER)
    #: Bytes of output that the master keeps of one job of one minion.
    output_limit: int = field(default=0, metadata=LATER)
    #: What the master understands (MASTER_WIRE); only agents of JOB_OUTPUT know this field.
    wire: int = field(default=1, metadata=LATER)


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
class Goodbye:
    """The sender stops on purpose."""

    reason: str


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

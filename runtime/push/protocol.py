"""The protocol between a master and its program on a host, over an SSH channel.

`python3 BUNDLE` (see `catena.ssh.push.bundle`) answers one question at a time. `core.framing`
defines the frames and the start of the channel. Each question is a frozen record of this module,
is named by its verb and has one type of answer; QUESTIONS lists them all. Some records come with
raw bytes in the frame's blob; their docstrings say so. A part is a content that is addressed by
its SHA-256.

A job, from the master's side (`catena.ssh.push.program.Program` has a method for each verb):

    hello                       identify the host; list its runs
    open     (put, open again)  name the host, send its custom files, get its grains
    pillar                      set the pillar that functions see
    call, known                 serve `salt[...]` of templates while a run is compiled
    has, put                    send the parts that the host does not have
    start                       start a detached runner, which needs no connection
    poll                        get the steps so far; wait a little for the next one
    supply                      answer a request of the run (a step of kind "ask")
    collect, ack                get the return; `ack` removes everything of the run

Every verb may be repeated after a lost connection: `start` with the id of an existing run starts
nothing, `put` of an existing part writes nothing, and `ack` of a removed run succeeds. Values
(pillar, grains, arguments, results) keep their types (`runtime.push.values`).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Dict, Mapping, Optional, Tuple, Type, TypeVar

from catena.core.context import FileEntry
from catena.core.errors import CatenaError, UsageError
from catena.core.frozen import dataclass, field, fields
from catena.core.job import JobReturn, JobSpec
from catena.core.records import LATER, decode
from catena.core.suggest import unknown
from catena.core.types import SourceLine
from catena.runtime.push import values
from catena.states.compiler.model import NOWHERE, Low, Order

R = TypeVar("R")

#: Maximum bytes of parts in one `put`; a larger part is sent in several slices.
PUT_LIMIT = 4 * 1024 * 1024
#: Maximum size of a part in bytes.
PART_LIMIT = 4 * 1024 * 1024 * 1024
#: Maximum bytes of a return in one answer to `collect`.
COLLECT_LIMIT = 4 * 1024 * 1024
#: Maximum size of an encoded `PushedJob` in bytes.
JOB_LIMIT = 256 * 1024 * 1024
#: Maximum seconds that a `poll` waits for the next step.
POLL_SECONDS = 20.0
#: Maximum number of steps in one answer to `poll`.
STEPS_LIMIT = 500

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{7,127}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class Trouble(str, Enum):
    """Why a question has no answer."""

    full = "full"  #: the disk (or a quota) is full; partial data is removed
    readonly = "readonly"  #: the private folder can't be written
    unsafe = "unsafe"  #: the folder or its content belongs to, or is open to, other users
    refused = "refused"  #: the question is malformed or not allowed in this state
    content = "content"  #: received bytes do not match their hash; they are discarded
    parts = "parts"  #: parts of the run are missing: `put` them, then start again
    unknown_run = "unknown_run"  #: no run has this id: it was never started, or acked
    busy = "busy"  #: the run is not finished
    deadline = "deadline"  #: a call took too long and was killed with its child processes
    died = "died"  #: the process that ran a call ended; the next call gets a new one
    fault = "fault"  #: anything else


class ProgramError(CatenaError):
    """The program on a host could not answer a question.

    Args:
        trouble: kind of the reason.
        text: the reason, one line.
        detail: further data, such as the hashes of missing parts.
    """

    def __init__(self, trouble: Trouble, text: str, detail: Tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.trouble = trouble
        self.detail = detail


class RunPhase(str, Enum):
    """Status of a run."""

    running = "running"  #: the runner is alive or about to start
    done = "done"  #: the return is stored until `ack`


@dataclass(frozen=True)
class Tree:
    """Files of one environment that are sent with a run, under their salt:// paths."""

    saltenv: str
    entries: Tuple[FileEntry, ...] = ()
    folders: Tuple[str, ...] = ()


@dataclass(frozen=True)
class HostIdentity:
    """Identity of a host for this master."""

    #: Id of the host in the roster.
    id: str
    #: Minion settings under Salt's keys: the roster's minion_opts and the master's own.
    settings: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LowState:
    """One call of a state function, as compiled (`states.compiler.model.Low`)."""

    state: str
    fun: str
    id: str
    name: str
    sls: Any
    env: str
    order: Order
    args: Dict[str, Any] = field(default_factory=dict)
    keywords: Dict[str, Any] = field(default_factory=dict)
    line: SourceLine = NOWHERE
    included_from: Tuple[str, ...] = ()
    written_order: Optional[Order] = None
    tries: Tuple[str, ...] = ()

    @classmethod
    def of(cls, low: Low) -> LowState:
        """Return *low* for sending: with its line number, without the text of its file."""
        line = SourceLine(low.line.file, low.line.line)
        found = {one.name: getattr(low, one.name) for one in fields(cls)}
        found.update(args=dict(low.args), keywords=dict(low.keywords), line=line)
        return cls(**found)

    def low(self) -> Low:
        """Return the `Low` that `states.compiler.api.run` expects."""
        return Low(**{one.name: getattr(self, one.name) for one in fields(self)})


@dataclass(frozen=True)
class PushedJob:
    """The input of a runner; it is sent as a part (`pack_job`)."""

    #: Job id, function, arguments, deadline, output limit. The function of a compiled run
    #: (state.apply, state.highstate …) is not called; the states in `low` run instead.
    spec: JobSpec
    identity: HostIdentity
    grains: Dict[str, Any] = field(default_factory=dict)
    #: The whole pillar with overrides: a mapping with keys of any type. None: the run requests
    #: the pillar on its first use.
    pillar: Any = field(default_factory=dict)
    #: All files that the run may request, always with custom files (`_modules/…`): the host's
    #: custom files are replaced by those of these trees.
    files: Tuple[Tree, ...] = ()
    #: Templates rendered on the master: key (`renderers.templates`) -> part with the text.
    rendered: Dict[str, str] = field(default_factory=dict)
    #: States to run; None: call the function of `spec`.
    low: Optional[Tuple[LowState, ...]] = None
    test: bool = False
    #: Environment of the run; "": base.
    saltenv: str = ""
    #: Call no state function; report which states would run, in their order.
    mock: bool = False
    #: Maximum bytes of commands' live output in the journal; 0: no live output.
    output_bytes: int = field(default=0, metadata=LATER)


@dataclass(frozen=True)
class RunResult:
    """Result of a run; the document that `collect` returns (`unpack_result`)."""

    ret: JobReturn
    #: `runtime.host.After` as data: what the host does next by itself (a reboot); None: nothing.
    after: Optional[Dict[str, Any]] = None
    #: The function raised; the value is the text of the error.
    raised: bool = False
    #: The runner died early (killed, power failure, reboot). States that `ret.value` marks as
    #: interrupted may have happened in part, completely or not at all.
    interrupted: bool = False


# --- questions and answers, in the order of the table below ---


@dataclass(frozen=True)
class Nothing:
    """The answer of a verb that returns no data."""


@dataclass(frozen=True)
class HostHello:
    """Ask for the host's identity and its runs."""


@dataclass(frozen=True)
class RunBrief:
    """One run stored on a host."""

    run_id: str
    jid: str
    fun: str
    phase: RunPhase
    #: Start time by the host's wall clock, seconds since the epoch.
    started: float


@dataclass(frozen=True)
class HostWelcome:
    """Identity of the host and its runs."""

    #: catena's version.
    version: str
    #: major.minor.micro of the interpreter.
    python: str
    pid: int
    euid: int
    user: str
    #: Path of the private folder that holds all data of the program.
    room: str
    boot_id: str
    machine_id: str
    #: Bytes that this user can still write in the folder.
    free: int
    runs: Tuple[RunBrief, ...] = ()


@dataclass(frozen=True)
class Open:
    """Name the host and replace its custom files by *custom*, for the calls that follow."""

    identity: HostIdentity
    #: Custom files (`_modules/…`, `_grains/…`, `_states/…`) of the host's environments.
    custom: Tuple[Tree, ...] = ()
    #: Whether to collect the grains (again).
    grains: bool = True


@dataclass(frozen=True)
class Opened:
    """The host is named; if *missing* is not empty, nothing was done."""

    missing: Tuple[str, ...] = ()
    grains: Dict[str, Any] = field(default_factory=dict)
    #: Ids of the machine and of its current boot, as chains on the host see them.
    machine_id: str = ""
    boot_id: str = ""
    #: Start time of that boot, ISO 8601 in UTC; "" if unknown.
    boot_time: str = ""


@dataclass(frozen=True)
class Pillar:
    """Set the pillar that functions see from now on: a mapping with keys of any type."""

    pillar: Any


@dataclass(frozen=True)
class Call:
    """Call one execution function on this channel, as a template does; for short calls."""

    fun: str
    args: Tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 300.0
    saltenv: str = ""
    test: bool = False


@dataclass(frozen=True)
class Fault:
    """An exception of a function."""

    #: Name of the exception's class, such as CommandExecutionError or KeyError.
    kind: str
    #: `str(error)`.
    text: str
    #: The error in one line with its place in the code, for people
    #: (`core.custom_faults.error_line`).
    told: str
    #: The function does not exist, or has no provider here.
    unavailable: bool = False


@dataclass(frozen=True)
class Called:
    """The value or the exception of a function."""

    value: Any = None
    fault: Optional[Fault] = None
    #: Value that the function left in `__context__["retcode"]`; 0 if none.
    retcode: int = 0


@dataclass(frozen=True)
class Known:
    """Ask which of the functions exist on the host, custom ones included."""

    names: Tuple[str, ...]
    #: "function" or "state".
    kind: str = "function"


@dataclass(frozen=True)
class KnownNames:
    """The names of existing functions."""

    names: Tuple[str, ...]


@dataclass(frozen=True)
class Has:
    """Ask which parts are missing."""

    sha256: Tuple[str, ...]


@dataclass(frozen=True)
class Missing:
    """Parts that the host does not have completely."""

    sha256: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Slice:
    """A consecutive piece of a part."""

    sha256: str
    #: Size of the whole part in bytes.
    size: int
    #: 0 starts the part again; otherwise the end of the previous slice on this channel.
    offset: int
    length: int


@dataclass(frozen=True)
class Put:
    """Send parts. Blob: the concatenated bytes of the slices, compressed by zlib if *packed*."""

    slices: Tuple[Slice, ...]
    packed: bool = False


@dataclass(frozen=True)
class Start:
    """Start a run. The part *job* (`pack_job`) is removed from the store of parts."""

    run_id: str
    #: SHA-256 of the part.
    job: str


@dataclass(frozen=True)
class RunStep:
    """One entry of a run's journal."""

    seq: int
    #: "begin" (key, id), "state" (key, ret, run_num, total), "event" (tag, data), "note" (text),
    #: "ask" (number, kind, data; requests a template, a file or fresh pillar, and the run waits
    #: for its `supply`; see `runtime.push.asking`), "output" (at, size, stream, text), or a kind
    #: that a function reports itself.
    kind: str
    data: Dict[str, Any] = field(default_factory=dict)
    when: float = 0.0


@dataclass(frozen=True)
class Poll:
    """Ask for the steps after sequence number *after*, in order."""

    run_id: str
    after: int = 0
    #: Seconds to wait for a step if there is none yet; at most POLL_SECONDS.
    wait_seconds: float = 0.0


@dataclass(frozen=True)
class Polled:
    """Status of a run and its next steps."""

    phase: RunPhase
    steps: Tuple[RunStep, ...] = ()
    #: More steps are available now.
    more: bool = False
    boot_id: str = ""


@dataclass(frozen=True)
class Supply:
    """Answer a request of a run to the master; the run then continues.

    Blob: `values.dumps` of the answer's data, which `runtime.push.asking` defines for each kind.
    It is durable in the run's folder before this question is answered and stays there until the
    run ends. A second answer to the same number is ignored.
    """

    run_id: str
    #: `number` of the step of kind "ask".
    number: int


@dataclass(frozen=True)
class Collect:
    """Ask for the return of a finished run, from byte *offset*."""

    run_id: str
    offset: int = 0


@dataclass(frozen=True)
class Collected:
    """A piece of the return. *size* and *sha256* are the whole return's. Blob: the piece."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Cancel:
    """Kill a run with all its processes; the run is then done, as failed."""

    run_id: str
    reason: str = ""


@dataclass(frozen=True)
class Ack:
    """Confirm that the master has stored the return; everything of the run is removed."""

    run_id: str


@dataclass(frozen=True)
class Clean:
    """Remove old runs, parts and bundles."""

    #: Minimum age in seconds of runs to remove: since their end, or of runs that never began.
    run_seconds: float = 7 * 86400.0
    #: Minimum seconds since the last use of parts and of bundles other than the running one.
    part_seconds: float = 30 * 86400.0


@dataclass(frozen=True)
class Cleaned:
    """Numbers of removed runs, parts and bundles."""

    runs: int = 0
    parts: int = 0
    bundles: int = 0


@dataclass(frozen=True)
class Wipe:
    """Remove all of catena's data from the private folder; refused (busy) while a run goes on."""


#: verb -> (question, answer).
QUESTIONS: Mapping[str, Tuple[Type[Any], Type[Any]]] = {
    "hello": (HostHello, HostWelcome),
    "open": (Open, Opened),
    "pillar": (Pillar, Nothing),
    "call": (Call, Called),
    "known": (Known, KnownNames),
    "has": (Has, Missing),
    "put": (Put, Nothing),
    "start": (Start, Polled),
    "poll": (Poll, Polled),
    "supply": (Supply, Nothing),
    "collect": (Collect, Collected),
    "cancel": (Cancel, Polled),
    "ack": (Ack, Nothing),
    "clean": (Clean, Cleaned),
    "wipe": (Wipe, Nothing),
}
_VERBS: Mapping[Type[Any], str] = {pair[0]: verb for verb, pair in QUESTIONS.items()}


def ask(question: Any) -> Dict[str, Any]:
    """Return the message of a question record."""
    body: Dict[str, Any] = values.pack(question)
    return {"ask": _VERBS[type(question)], "body": body}


def asked(message: Mapping[str, Any]) -> Any:
    """Return the question record of a message.

    Raises:
        UsageError: the verb is unknown, or the record does not match its type.
    """
    verb = message.get("ask")
    if not isinstance(verb, str) or verb not in QUESTIONS:
        raise UsageError(unknown("verb", str(verb)[:80], QUESTIONS))
    return decode(QUESTIONS[verb][0], values.unpack(message.get("body")), verb)


def answer(record: Any) -> Dict[str, Any]:
    """Return the message of an answer record."""
    return {"ok": values.pack(record)}


def failure(error: ProgramError) -> Dict[str, Any]:
    """Return the message that reports *error* instead of an answer."""
    return {
        "trouble": error.trouble.value,
        "text": str(error)[:4000],
        "detail": list(error.detail),
    }


def answered(question: Any, message: Mapping[str, Any]) -> Any:
    """Return the answer record of a message.

    Raises:
        ProgramError: the program reported an error.
        RecordError: the message does not follow the protocol.
    """
    if "trouble" in message:
        told = decode(_Failure, message, "answer")
        raise ProgramError(told.trouble, told.text, told.detail)
    verb = _VERBS[type(question)]
    return decode(QUESTIONS[verb][1], values.unpack(message.get("ok")), verb)


@dataclass(frozen=True)
class _Failure:
    trouble: Trouble
    text: str
    detail: Tuple[str, ...] = ()


#: First bytes of every encoded `PushedJob`. Such a part holds the pillar, so it is removed from a
#: host that does not start it.
JOB_HEAD = b'{"spec":{"jid":'


def pack_job(job: PushedJob) -> bytes:
    """Return the content of the part that `start` names."""
    return values.dumps(job)


def unpack_job(data: bytes) -> PushedJob:
    """Decode the output of `pack_job`.

    Raises:
        RecordError: *data* is not an encoded job.
    """
    return decode(PushedJob, values.loads(data), "job")


def pack_result(result: RunResult) -> bytes:
    """Return the document that `collect` returns."""
    return values.dumps(result)


def unpack_result(data: bytes) -> RunResult:
    """Decode the output of `pack_result`.

    Raises:
        RecordError: *data* is not an encoded result.
    """
    return decode(RunResult, values.loads(data), "result")


def run_id(text: str) -> str:
    """Check that *text* is a run id (8 to 128 letters, digits, hyphens, underscores); return it.

    Raises:
        UsageError: *text* is not a run id.
    """
    if not _RUN_ID.match(text):
        raise UsageError(f"{text[:80]!r} is not the id of a run")
    return text


def sha256(text: str) -> str:
    """Check that *text* is a SHA-256 in lower-case hex; return it.

    Raises:
        UsageError: *text* is not a SHA-256.
    """
    if not _SHA256.match(text):
        raise UsageError(f"{text[:80]!r} is not a SHA-256")
    return text

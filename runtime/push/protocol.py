"""What a master and its program on a host say to each other over an SSH channel.

`python3 BUNDLE` (see `catena.ssh.push.bundle`) answers one question after the other; frames and
the start of the channel are `core.framing`'s. Each question is a frozen record of this module,
named by its verb, and has one kind of answer; QUESTIONS is the whole table. Some carry raw bytes
beside the record (the frame's blob): said at the record.

A job, from the master's side (`catena.ssh.push.program.Program` has a method for each verb):

    hello                       who is there, what runs, what waits to be collected
    open     (put, open again)  name the host, bring its custom files, get its grains
    pillar                      what functions see as pillar from now on
    call, known                 while a run is compiled: `salt[...]` of the templates
    has, put                    parts: contents by their SHA-256; only what is missing travels
    start                       a detached runner begins; it needs nobody from now on
    poll                        its steps so far; waits a little for the next one
    supply                      what the run asked of the master (a step of kind "ask")
    collect, ack                its return; after `ack` nothing of the run is left

Every verb may be repeated after a lost connection: `start` with the id of a run that is there
already starts nothing, `put` of a part that is there writes nothing, `ack` of a run that is gone
is done. Values (pillar, grains, arguments, results) keep their types (`runtime.push.values`).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Dict, Mapping, Optional, Tuple, Type, TypeVar

from catena.core.context import FileEntry
from catena.core.errors import CatenaError, UsageError
from catena.core.frozen import dataclass, field, fields
from catena.core.job import JobReturn, JobSpec
from catena.core.records import decode
from catena.core.suggest import unknown
from catena.core.types import SourceLine
from catena.runtime.push import values
from catena.states.compiler.model import NOWHERE, Low, Order

R = TypeVar("R")

#: Bytes of the parts in one `put`; a larger part comes in several.
PUT_LIMIT = 4 * 1024 * 1024
#: Largest part.
PART_LIMIT = 4 * 1024 * 1024 * 1024
#: Bytes of a return in one answer to `collect`.
COLLECT_LIMIT = 4 * 1024 * 1024
#: Largest document of a run (`PushedJob`).
JOB_LIMIT = 256 * 1024 * 1024
#: Longest that a `poll` waits for the next step.
POLL_SECONDS = 20.0
#: Steps of one answer to `poll`.
STEPS_LIMIT = 500

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{7,127}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class Trouble(str, Enum):
    """Why a question has no answer."""

    full = "full"  #: the disk (or a quota) is full; what was begun is removed
    readonly = "readonly"  #: the room can't be written
    unsafe = "unsafe"  #: the room, or something in it, is another user's or open to others
    refused = "refused"  #: the question is malformed or makes no sense
    content = "content"  #: what came does not have its hash; nothing is kept
    parts = "parts"  #: parts of the run are not here: `put` them, then start again
    unknown_run = "unknown_run"  #: there is no run of that id: never started, or acked
    busy = "busy"  #: the run still goes on
    deadline = "deadline"  #: a call took too long and was killed with all that it started
    died = "died"  #: the process that ran a call ended; the next call gets a new one
    fault = "fault"  #: anything else


class TargetError(CatenaError):
    """The program on a host could not do what it was asked.

    Args:
        trouble: what kind of reason it is.
        text: the reason, one line.
        detail: hashes of missing parts and the like.
    """

    def __init__(self, trouble: Trouble, text: str, detail: Tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.trouble = trouble
        self.detail = detail


class RunPhase(str, Enum):
    """Where a run stands."""

    running = "running"  #: its runner lives (or is about to)
    done = "done"  #: its return is there, until `ack`


@dataclass(frozen=True)
class Tree:
    """Files of one environment that travel with a run, under their salt:// paths."""

    saltenv: str
    entries: Tuple[FileEntry, ...] = ()
    folders: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Identity:
    """Who a host is for this master."""

    #: Its id in the roster.
    id: str
    #: Minion settings (the roster's minion_opts, and what the master decides), Salt's keys.
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
        """Return *low* as it travels: its line stays, the text of its file does not."""
        line = SourceLine(low.line.file, low.line.line)
        found = {one.name: getattr(low, one.name) for one in fields(cls)}
        found.update(args=dict(low.args), keywords=dict(low.keywords), line=line)
        return cls(**found)

    def low(self) -> Low:
        """Return what `states.compiler.api.run` takes."""
        return Low(**{one.name: getattr(self, one.name) for one in fields(self)})


@dataclass(frozen=True)
class PushedJob:
    """All that a runner needs; it travels as a part (`pack_job`)."""

    #: Job id, function, arguments, deadline, limit of the output. The function of a compiled run
    #: (state.apply, state.highstate …) is not called: `low` is run in its place.
    spec: JobSpec
    identity: Identity
    grains: Dict[str, Any] = field(default_factory=dict)
    #: The whole pillar, overrides included: a mapping, with keys of any kind. None: the run asks
    #: for it when it is first looked at.
    pillar: Any = field(default_factory=dict)
    #: Every file that the run may ask for, custom files (`_modules/…`) always included: the
    #: host's custom files are made what these trees say.
    files: Tuple[Tree, ...] = ()
    #: Templates rendered on the master: key (`renderers.templates`) -> part with the text.
    rendered: Dict[str, str] = field(default_factory=dict)
    #: States to run; None: call the function of `spec`.
    low: Optional[Tuple[LowState, ...]] = None
    test: bool = False
    #: Environment of the run; "": base.
    saltenv: str = ""
    #: Call no state function: say what would run, in which order.
    mock: bool = False


@dataclass(frozen=True)
class RunResult:
    """What a run came to; the document that `collect` brings (`unpack_result`)."""

    ret: JobReturn
    #: `runtime.host.After` as data: what the host does now by itself (a reboot); None: nothing.
    after: Optional[Dict[str, Any]] = None
    #: The value is the text of why there is none.
    raised: bool = False
    #: The runner died (killed, power cut, reboot) before its end: rows of `ret.value` that say so
    #: may have happened in part, wholly or not at all.
    interrupted: bool = False


# --- questions and answers, in the order of the table below ---


@dataclass(frozen=True)
class Nothing:
    """The answer of a verb that has none."""


@dataclass(frozen=True)
class Hello:
    """Ask who is there."""


@dataclass(frozen=True)
class RunBrief:
    """One run that is kept on a host."""

    run_id: str
    jid: str
    fun: str
    phase: RunPhase
    #: Wall clock of the host.
    started: float


@dataclass(frozen=True)
class Welcome:
    """Who is there."""

    #: catena's version.
    version: str
    #: major.minor.micro of the interpreter.
    python: str
    pid: int
    euid: int
    user: str
    #: The private folder in which everything lies.
    room: str
    boot_id: str
    machine_id: str
    #: Bytes that this user may still write there.
    free: int
    runs: Tuple[RunBrief, ...] = ()


@dataclass(frozen=True)
class Open:
    """Name the host and make its custom files what *custom* says; later calls run so."""

    identity: Identity
    #: Custom files (`_modules/…`, `_grains/…`, `_states/…`) of the environments that count.
    custom: Tuple[Tree, ...] = ()
    #: Whether to collect the grains (again).
    grains: bool = True


@dataclass(frozen=True)
class Opened:
    """The host is named; or parts are missing, and nothing was done."""

    missing: Tuple[str, ...] = ()
    grains: Dict[str, Any] = field(default_factory=dict)
    #: Which machine it is under this id, and its boot: as chains there see them.
    machine_id: str = ""
    boot_id: str = ""
    #: When that boot began, ISO 8601 in UTC; "" where it is unknown.
    boot_time: str = ""


@dataclass(frozen=True)
class Pillar:
    """What functions see as pillar from now on: a mapping, with keys of any kind."""

    pillar: Any


@dataclass(frozen=True)
class Call:
    """Call one execution function, on this channel, as a template does. For short ones."""

    fun: str
    args: Tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 300.0
    saltenv: str = ""
    test: bool = False


@dataclass(frozen=True)
class Fault:
    """What a function raised."""

    #: Name of the exception's class, such as CommandExecutionError or KeyError.
    kind: str
    #: `str(error)`.
    text: str
    #: The same in one line with its place, for people (`core.custom_faults.told`).
    told: str
    #: The function does not exist, or has no provider here.
    unavailable: bool = False


@dataclass(frozen=True)
class Called:
    """What a function returned, or raised."""

    value: Any = None
    fault: Optional[Fault] = None
    #: What it left in `__context__["retcode"]`; 0 without.
    retcode: int = 0


@dataclass(frozen=True)
class Known:
    """Ask which functions exist here, custom ones too."""

    names: Tuple[str, ...]
    #: "function" or "state".
    kind: str = "function"


@dataclass(frozen=True)
class KnownNames:
    """Those of the names that exist."""

    names: Tuple[str, ...]


@dataclass(frozen=True)
class Has:
    """Ask which parts are missing."""

    sha256: Tuple[str, ...]


@dataclass(frozen=True)
class Missing:
    """Parts that are not here whole."""

    sha256: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Slice:
    """A piece of a part."""

    sha256: str
    #: Of the whole part.
    size: int
    #: 0 begins the part anew; else where the last slice of this channel ended.
    offset: int
    length: int


@dataclass(frozen=True)
class Put:
    """Bring parts. Blob: the slices' bytes one after the other; by zlib where *packed*."""

    slices: Tuple[Slice, ...]
    packed: bool = False


@dataclass(frozen=True)
class Start:
    """Start a run. The part *job* (`pack_job`) is taken out of the store."""

    run_id: str
    #: SHA-256 of the part.
    job: str


@dataclass(frozen=True)
class Step:
    """One line of a run's journal."""

    seq: int
    #: "begin" (key, id), "state" (key, ret, run_num, total), "event" (tag, data), "note" (text),
    #: "ask" (number, kind, data: a template, a file, fresh pillar; see `runtime.push.asking`: the
    #: run waits for its `supply`), and what a function tells of itself.
    kind: str
    data: Dict[str, Any] = field(default_factory=dict)
    when: float = 0.0


@dataclass(frozen=True)
class Poll:
    """Ask for the steps after *after*, in order."""

    run_id: str
    after: int = 0
    #: How long to wait where there is none yet; at most POLL_SECONDS.
    wait_seconds: float = 0.0


@dataclass(frozen=True)
class Polled:
    """Where a run stands."""

    phase: RunPhase
    steps: Tuple[Step, ...] = ()
    #: There are more already.
    more: bool = False
    boot_id: str = ""


@dataclass(frozen=True)
class Supply:
    """Answer what a run asked of the master; the run goes on with it.

    Blob: `values.dumps` of what `runtime.push.asking` says of the kind. Kept in the run's folder
    until the run ends, durably before the answer to this; a second one of a number is passed over.
    """

    run_id: str
    #: `number` of the step of kind "ask".
    number: int


@dataclass(frozen=True)
class Collect:
    """Ask for the return of a run that is done, from a byte on."""

    run_id: str
    offset: int = 0


@dataclass(frozen=True)
class Collected:
    """A piece of the return. Blob: its bytes."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Cancel:
    """Kill a run with all that it started; it is done then, as failed."""

    run_id: str
    reason: str = ""


@dataclass(frozen=True)
class Ack:
    """Say that the return is safe: everything of the run goes."""

    run_id: str


@dataclass(frozen=True)
class Clean:
    """Remove what nobody needs any more."""

    #: Runs that are done, or never began, for so long.
    run_seconds: float = 7 * 86400.0
    #: Parts that nothing used for so long, and bundles other than the running one.
    part_seconds: float = 30 * 86400.0


@dataclass(frozen=True)
class Cleaned:
    """How much went."""

    runs: int = 0
    parts: int = 0
    bundles: int = 0


@dataclass(frozen=True)
class Wipe:
    """Remove everything of catena from the room; refused (busy) while a run goes on."""


#: verb -> (question, answer).
QUESTIONS: Mapping[str, Tuple[Type[Any], Type[Any]]] = {
    "hello": (Hello, Welcome),
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
        UsageError: no such verb, or a record that does not fit.
    """
    verb = message.get("ask")
    if not isinstance(verb, str) or verb not in QUESTIONS:
        raise UsageError(unknown("verb", str(verb)[:80], QUESTIONS))
    return decode(QUESTIONS[verb][0], values.unpack(message.get("body")), verb)


def answer(record: Any) -> Dict[str, Any]:
    """Return the message of an answer record."""
    return {"ok": values.pack(record)}


def failure(error: TargetError) -> Dict[str, Any]:
    """Return the message of a question that has no answer."""
    return {
        "trouble": error.trouble.value,
        "text": str(error)[:4000],
        "detail": list(error.detail),
    }


def answered(question: Any, message: Mapping[str, Any]) -> Any:
    """Return the answer record of a message.

    Raises:
        TargetError: the program could not do it.
        RecordError: the message is none of the protocol.
    """
    if "trouble" in message:
        told = decode(_Failure, message, "answer")
        raise TargetError(told.trouble, told.text, told.detail)
    verb = _VERBS[type(question)]
    return decode(QUESTIONS[verb][1], values.unpack(message.get("ok")), verb)


@dataclass(frozen=True)
class _Failure:
    trouble: Trouble
    text: str
    detail: Tuple[str, ...] = ()


#: How every job's part begins. It holds the pillar: it leaves a host that does not start it.
JOB_HEAD = b'{"spec":{"jid":'


def pack_job(job: PushedJob) -> bytes:
    """Return the part that `start` names."""
    return values.dumps(job)


def unpack_job(data: bytes) -> PushedJob:
    """Return what `pack_job` was given.

    Raises:
        RecordError: it is no such document.
    """
    return decode(PushedJob, values.loads(data), "job")


def pack_result(result: RunResult) -> bytes:
    """Return the document that `collect` brings."""
    return values.dumps(result)


def unpack_result(data: bytes) -> RunResult:
    """Return what `pack_result` was given.

    Raises:
        RecordError: it is no such document.
    """
    return decode(RunResult, values.loads(data), "result")


def run_id(text: str) -> str:
    """Return *text* as the id of a run: 8 to 128 letters, digits, hyphens and underscores.

    Raises:
        UsageError: it is none.
    """
    if not _RUN_ID.match(text):
        raise UsageError(f"{text[:80]!r} is not the id of a run")
    return text


def sha256(text: str) -> str:
    """Return *text* as a SHA-256 in lower-case hex.

    Raises:
        UsageError: it is none.
    """
    if not _SHA256.match(text):
        raise UsageError(f"{text[:80]!r} is not a SHA-256")
    return text

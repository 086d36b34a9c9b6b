"""Messages between the master and the process of a visit: records in frames.

The visit sends a `HostReport`, waits for `Go`, and ends by itself. All types in its messages are
checked although it runs on the master's host, because they contain data of the visited host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

import msgpack

from catena.core.errors import PeerError
from catena.core.finite import finite_record
from catena.core.job import JobReturn, JobSpec
from catena.core.records import decode, encode

#: Maximum bytes of one frame: the largest return and its encoding.
FRAME_LIMIT = 512 * 1024 * 1024
HEAD_BYTES = 4


# -- from the master ---------------------------------------------------------------------------


@dataclass(frozen=True)
class VisitOrder:
    """The task of a visit; the first frame."""

    #: MasterSettings as plain data, without secrets of the roster.
    settings: dict[str, Any]
    host: str
    #: Folder of the configuration, for commands in messages to users.
    config_dir: str
    #: Path below the roots -> file that only this host sees.
    own_files: dict[str, str] = field(default_factory=dict)
    extra_roots: tuple[str, ...] = ()
    #: The job; None: only look at the host.
    spec: Optional[JobSpec] = None
    #: Why the job is cancelled; "" if it is not.
    cancel: str = ""
    #: Seconds for which the host may be unreachable before the visit ends.
    away_seconds: float = 5.0
    #: Maximum bytes of output of the job's running commands to send; 0: none.
    output_bytes: int = 0


@dataclass(frozen=True)
class Go:
    """Tells whether the visit continues with its job."""

    on: bool


@dataclass(frozen=True)
class CallOff:
    """Cancels the job."""

    reason: str


@dataclass(frozen=True)
class Kept:
    """Confirms that the return is durable: the host may delete it."""


# -- from the visit ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Phased:
    """The current phase of the visit, for display."""

    phase: str
    text: str = ""


@dataclass(frozen=True)
class HostReport:
    """The host's data; the visit then waits for `Go`."""

    machine_id: str
    boot_id: str
    boot_time: str
    address: str
    grains: dict[str, Any] = field(default_factory=dict)
    pending: dict[str, Any] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True)
class Began:
    """The host has the job."""


@dataclass(frozen=True)
class Stepped:
    """One step of the job."""

    seq: int
    kind: str
    when: float
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Printed:
    """A chunk of output of a running command of the job (`transport.messages.JobOutput`)."""

    attempt: int
    at: int
    size: int
    stream: str
    text: str


@dataclass(frozen=True)
class Returned:
    """The return of the job; the visit then waits for `Kept`."""

    ret: JobReturn


@dataclass(frozen=True)
class NeverBegan:
    """The cancelled job was not begun on the host."""


@dataclass(frozen=True)
class Troubled:
    """The visit ends without having done its task."""

    #: `decide.VisitEnd`.
    end: str
    text: str


@dataclass(frozen=True)
class Done:
    """The visit ends."""


_KINDS: dict[str, type[Any]] = {
    one.__name__: one
    for one in (
        VisitOrder, Go, CallOff, Kept,
        Phased, HostReport, Began, Stepped, Printed, Returned, NeverBegan, Troubled, Done,
    )
}  # fmt: skip


#: Messages with data of the host, which is later shown as JSON.
_OF_THE_HOST = frozenset({HostReport, Stepped, Printed, Returned})


def pack(message: Any) -> bytes:
    """Return a message as a frame."""
    data = {"kind": type(message).__name__, "data": encode(message)}
    body: bytes = msgpack.packb(data, use_bin_type=True, default=str)
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def size_of(head: bytes) -> int:
    """Return the length in a frame's head.

    Raises:
        PeerError: the length exceeds the limit.
    """
    size = int.from_bytes(head, "big")
    if size > FRAME_LIMIT:
        raise PeerError(f"a frame of {size} bytes exceeds the limit of {FRAME_LIMIT} bytes")
    return size


def unpack(body: bytes) -> Any:
    """Return the message in a frame's body.

    Raises:
        CatenaError: the body is invalid.
    """
    data = msgpack.unpackb(body, raw=False, strict_map_key=False)
    kind = _KINDS.get(str(data.get("kind"))) if isinstance(data, dict) else None
    if kind is None:
        raise PeerError("a message between master and visit has an unknown kind")
    message = decode(kind, data["data"], kind.__name__)
    return finite_record(message) if kind in _OF_THE_HOST else message

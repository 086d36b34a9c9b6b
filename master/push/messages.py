"""What the master and the process of a visit say to each other: records in frames.

The visit speaks first (`Facts`), is told whether to go on, and ends by itself. It is another
process, not another host: its words are decoded with every type checked all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

import msgpack

from catena.core.errors import PeerError
from catena.core.finite import finite_record
from catena.core.job import JobReturn, JobSpec
from catena.core.records import decode, encode

#: Of one frame: a return of the largest size, and what its form adds.
FRAME_LIMIT = 512 * 1024 * 1024
HEAD_BYTES = 4


# -- from the master ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """What a visit is for; the first frame."""

    #: MasterSettings as plain data: no secret of the roster is among them.
    settings: dict[str, Any]
    host: str
    #: Folder of the configuration, for the commands that messages name.
    config_dir: str
    #: Path below the roots -> file that this host alone sees.
    own_files: dict[str, str] = field(default_factory=dict)
    extra_roots: tuple[str, ...] = ()
    #: None: only a look.
    spec: Optional[JobSpec] = None
    #: Why the job is called off; "": it is not.
    cancel: str = ""
    #: How long the host may be away before the visit ends.
    away_seconds: float = 5.0


@dataclass(frozen=True)
class Go:
    """Whether the visit goes on with its job."""

    on: bool


@dataclass(frozen=True)
class CallOff:
    """The job is called off."""

    reason: str


@dataclass(frozen=True)
class Kept:
    """The return is durable: the host may forget it."""


# -- from the visit ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Phased:
    """Where the visit is, for people."""

    phase: str
    text: str = ""


@dataclass(frozen=True)
class Facts:
    """What the host says of itself; the visit waits for `Go`."""

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
class Returned:
    """What the job came to; the visit waits for `Kept`."""

    ret: JobReturn


@dataclass(frozen=True)
class NeverBegan:
    """The job that is called off was not begun there."""


@dataclass(frozen=True)
class Troubled:
    """The visit ends without what it was for."""

    #: `decide.End`.
    end: str
    text: str


@dataclass(frozen=True)
class Done:
    """The visit ends."""


_KINDS: dict[str, type[Any]] = {
    one.__name__: one
    for one in (
        Order, Go, CallOff, Kept,
        Phased, Facts, Began, Stepped, Returned, NeverBegan, Troubled, Done,
    )
}  # fmt: skip


#: What a host said, and so ends up as JSON.
_OF_THE_HOST = frozenset({Facts, Stepped, Returned})


def pack(message: Any) -> bytes:
    """Return a message as a frame."""
    data = {"kind": type(message).__name__, "data": encode(message)}
    body: bytes = msgpack.packb(data, use_bin_type=True, default=str)
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def size_of(head: bytes) -> int:
    """Return the length that a frame's head tells.

    Raises:
        PeerError: no frame is so long.
    """
    size = int.from_bytes(head, "big")
    if size > FRAME_LIMIT:
        raise PeerError(f"a frame of {size} bytes")
    return size


def unpack(body: bytes) -> Any:
    """Return the message of a frame's body.

    Raises:
        CatenaError: it is none.
    """
    data = msgpack.unpackb(body, raw=False, strict_map_key=False)
    kind = _KINDS.get(str(data.get("kind"))) if isinstance(data, dict) else None
    if kind is None:
        raise PeerError("a visit says what no visit says")
    message = decode(kind, data["data"], kind.__name__)
    return finite_record(message) if kind in _OF_THE_HOST else message

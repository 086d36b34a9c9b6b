"""Requests over a unix socket: of a client to the master, of a job to its daemon."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from catena.core.frozen import dataclass, field
from catena.core.records import LATER


@dataclass(frozen=True)
class Failure:
    """Reports that a request failed."""

    #: Name of the CatenaError class; determines the exit code.
    code: str
    message: str


@dataclass(frozen=True)
class ClientRequest:
    """A local client's request to the master, or to the minion daemon, over its unix socket."""

    #: Name of a verb in the receiver's table of requests.
    verb: str
    params: Dict[str, Any]
    #: Requests of one user with the same key take effect once; "": no deduplication.
    key: str = field(default="", metadata=LATER)


@dataclass(frozen=True)
class ClientItem:
    """One of several answers; more follow until ClientReply or Failure."""

    value: Any


@dataclass(frozen=True)
class ClientItems:
    """Several items in one message; equivalent to one ClientItem for each, in this order."""

    values: Tuple[Any, ...]


@dataclass(frozen=True)
class ClientReply:
    """The last (or only) answer."""

    value: Any


@dataclass(frozen=True)
class ClientStop:
    """Ends a stream: the client wants no more items of the request that this replies to."""

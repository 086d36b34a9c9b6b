"""Requests over a unix socket: a command to the master, a job to its daemon."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from catena.core.frozen import dataclass, field
from catena.core.records import LATER


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
    #: Requests of one user with the same key take effect once; "": every request is a new one.
    key: str = field(default="", metadata=LATER)


@dataclass(frozen=True)
class ClientItem:
    """One of several answers; more follow until ClientReply or Failure."""

    value: Any


@dataclass(frozen=True)
class ClientItems:
    """Several of the answers, in their order: as a ClientItem for each."""

    values: Tuple[Any, ...]


@dataclass(frozen=True)
class ClientReply:
    """The last (or only) answer."""

    value: Any


@dataclass(frozen=True)
class ClientStop:
    """The client wants no more items of the request that this replies to."""

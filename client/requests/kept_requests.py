"""The outcome of earlier requests."""

from __future__ import annotations

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass


@dataclass(frozen=True)
class RequestFind:
    """Ask whether a request of the calling user took effect."""

    #: The request's key (`ClientRequest.key`).
    key: str


@dataclass(frozen=True)
class RequestState:
    """The outcome of a request."""

    #: Whether it took effect.
    taken: bool


FIND = Ask("request.find", RequestFind, lambda: RequestState, idempotent=True)

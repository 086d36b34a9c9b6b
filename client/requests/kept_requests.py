"""What became of earlier requests."""

from __future__ import annotations

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass


@dataclass(frozen=True)
class RequestFind:
    """Ask whether a request of the calling user was carried out."""

    #: As the request had it (`ClientRequest.key`).
    key: str


@dataclass(frozen=True)
class RequestState:
    """What became of a request."""

    #: Whether it was carried out.
    taken: bool


FIND = Ask("request.find", RequestFind, lambda: RequestState, idempotent=True)

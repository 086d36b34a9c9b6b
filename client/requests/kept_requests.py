"""What became of earlier requests."""

from __future__ import annotations

from catena.client.requests.contract import Ask
from catena.core.frozen import dataclass


@dataclass(frozen=True)
class RequestFind:
    """Ask whether a request of the calling user was carried out. Reply: {"taken": bool}."""

    #: As the request had it (`ClientRequest.key`).
    key: str


FIND = Ask("request.find", RequestFind, dict, idempotent=True)

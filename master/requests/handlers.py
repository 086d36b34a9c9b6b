"""Handlers of the verbs about requests themselves and about uploaded files."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from catena.client.requests import blobs as blob_asks
from catena.client.requests import kept_requests
from catena.client.requests.blobs import BlobPut, BlobState
from catena.client.requests.kept_requests import RequestFind, RequestState
from catena.master.requests.blobs import Blobs
from catena.master.requests.once import RequestLog
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import verb


@dataclass(frozen=True, slots=True)
class RequestHandlers:
    """One method per verb, which takes the caller and the request record."""

    requests: RequestLog
    blobs: Blobs

    @verb(kept_requests.FIND, Right.read_jobs)
    async def find(self, caller: Caller, asked: RequestFind) -> RequestState:
        """Return whether a request took effect."""
        return RequestState(await self.requests.is_taken(caller.name, asked.key))

    @verb(blob_asks.PUT, Right.change_chains)
    async def put(self, caller: Caller, asked: BlobPut) -> BlobState:
        """Store one piece of a file."""
        return BlobState(await asyncio.to_thread(self.blobs.put, asked))

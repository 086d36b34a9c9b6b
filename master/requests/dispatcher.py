"""The one dispatcher of client requests: authenticate, authorise, decode, hand to the handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from catena.client.requests.jobs import RunJob
from catena.core import failpoints
from catena.core.errors import NotFoundError, UsageError
from catena.core.records import decode, encode
from catena.core.suggest import unknown
from catena.master.requests.once import Once, RequestLog
from catena.master.requests.rights import REACTOR, Caller, LocalUsers
from catena.master.requests.verb import Answer, Aside, End, Verb
from catena.transport.local_server import LocalConnection
from catena.transport.messages import ClientItem, ClientReply, ClientRequest, Envelope


class Dispatcher:
    """Holds the table of handlers.

    Args:
        verbs: every verb by name (`verb.table`).
        users: who the users of the unix socket are.
        requests: what is known of requests that came with a key.
    """

    def __init__(self, verbs: Mapping[str, Verb], users: LocalUsers, requests: RequestLog) -> None:
        self._verbs = verbs
        self._users = users
        self._requests = requests
        #: Who is on each connection; the system's list of users is a file, read anew each time.
        self._callers: WeakKeyDictionary[LocalConnection, Caller] = WeakKeyDictionary()

    async def serve(self, connection: LocalConnection, envelope: Envelope) -> None:
        """Answer one ClientRequest of the unix socket; its CatenaErrors become Failures."""
        request: ClientRequest = envelope.message
        caller = self._callers.get(connection)
        if caller is None:
            caller = self._callers[connection] = self._users.caller(connection.peer)
        failpoints.hit("master.request")
        result = self._begin(caller, request.verb, request.params, request.key)
        last: Any = None
        if isinstance(result, AsyncIterator):
            # To its very end: what is left behind half-way is ended by a task of its own.
            async for item in result:
                if isinstance(item, End):
                    last = item.value
                elif isinstance(item, Aside):
                    await connection.send(ClientItem(item.value), envelope.msg_id, patient=True)
                else:
                    await connection.send(ClientItem(item), envelope.msg_id)
        else:
            last = await result
        if request.key:
            failpoints.hit("master.request.taken")
        failpoints.hit("master.request.done")
        await connection.send(ClientReply(last), envelope.msg_id)

    async def ask(self, user: str, verb: str, record: Any, key: str = "") -> Any:
        """Ask on behalf of a part of the master itself (the reactor); no streams.

        Args:
            user: the part.
            verb: what it asks for.
            record: the verb's record.
            key: requests with the same key take effect once; "": this is a new one.

        Raises:
            UsageError: the verb streams, or *user* is no part of the master.
        """
        if user != REACTOR.name:
            raise UsageError(f"{user} is no part of the master")
        if isinstance(record, RunJob) and record.follow:
            raise UsageError("a part of the master can't follow a job")
        result = self._begin(REACTOR, verb, encode(record), key)
        if isinstance(result, AsyncIterator):
            raise UsageError(f"{verb} streams")
        return await result

    def _begin(self, caller: Caller, verb: str, params: Any, key: str) -> Answer:
        known = self._verbs.get(verb)
        if known is None:
            raise NotFoundError(unknown("request", verb[:80], self._verbs))
        caller.need(known.right)
        asked = decode(known.ask.request, params, verb)
        if not key or known.ask.idempotent:
            return known.handler(caller, asked)
        once = self._requests.once(caller.name, key, verb, params)
        handle = partial(known.handler, replace(caller, once=once), asked)
        return handle() if known.repeats else self._unless_recorded(once, handle)

    async def _unless_recorded(self, once: Once, handle: Callable[[], Any]) -> Any:
        """Return the recorded answer of a request, or else that of its handler.

        What a handler checks before its transaction may have changed since the first request, so
        that a repetition would fail there. The transaction looks for the key as well, because a
        repetition may come before the first request is committed.
        """
        found = await self._requests.recorded(once)
        return await handle() if found is None else found.answer

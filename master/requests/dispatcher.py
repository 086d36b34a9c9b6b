"""The one dispatcher of client requests: authenticate, authorise, decode, hand to the handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from catena.client.requests import CHANGES, VERBS, RunJob, record
from catena.core import failpoints
from catena.core.errors import NotFoundError, UsageError
from catena.core.records import decode, encode
from catena.core.suggest import unknown
from catena.master.requests.once import Once, RequestLog
from catena.master.requests.rights import REACTOR, Caller, LocalUsers, Right
from catena.transport.local_server import LocalConnection
from catena.transport.messages import ClientItem, ClientReply, ClientRequest, Envelope

#: Verb -> the right that it needs. A verb that is not here can't be asked.
RIGHTS: Mapping[str, Right] = {
    "job.run": Right.run_jobs,
    "job.list": Right.read_jobs,
    "job.show": Right.read_jobs,
    "job.watch": Right.read_jobs,
    "job.cancel": Right.run_jobs,
    "request.find": Right.read_jobs,
    "event.watch": Right.read_events,
    "event.send": Right.send_events,
    "key.list": Right.read_keys,
    "key.change": Right.decide_keys,
    "key.finger": Right.read_keys,
    "key.token": Right.decide_keys,
    "minion.list": Right.read_minions,
    "minion.show": Right.read_minions,
    "runner.call": Right.call_runners,
    "blob.put": Right.change_chains,
    "chain.create": Right.change_chains,
    "chain.add": Right.change_chains,
    "chain.edit": Right.change_chains,
    "chain.move": Right.change_chains,
    "chain.remove_entry": Right.change_chains,
    "chain.apply": Right.change_chains,
    "chain.schedule": Right.change_chains,
    "chain.approve": Right.change_chains,
    "chain.list": Right.read_chains,
    "chain.show": Right.read_chains,
    "chain.watch": Right.read_chains,
    "chain.cancel": Right.change_chains,
    "chain.retry": Right.change_chains,
    "chain.resolve": Right.change_chains,
    "chain.release": Right.change_chains,
    "chain.render": Right.read_chains,
    "chain.preview": Right.change_chains,
    "chain.delete": Right.change_chains,
}


#: Verbs whose handlers give a repetition its answer: a job keeps its key and may be followed,
#: and a token must not be stored in clear.
_BY_THEMSELVES = frozenset({"job.run", "key.token"})


@dataclass(frozen=True, slots=True)
class End:
    """The last thing that a stream yields: the value of its reply."""

    value: Any


@dataclass(frozen=True, slots=True)
class Aside:
    """An item of a stream that nobody waits for by itself: it may go with the next one."""

    value: Any


#: Answers a request of a caller: a value, or a stream of items with an End at most once, last.
Handler = Callable[[Caller, Any], "Awaitable[Any] | AsyncIterator[Any]"]


class Dispatcher:
    """Holds the table of handlers.

    Args:
        handlers: verb -> handler; every verb of VERBS must have one.
        users: who the users of the unix socket are.
        requests: what is known of requests that came with a key.
    """

    def __init__(
        self, handlers: Mapping[str, Handler], users: LocalUsers, requests: RequestLog
    ) -> None:
        missing = VERBS.keys() - handlers.keys() | VERBS.keys() - RIGHTS.keys()
        if missing:
            raise NotFoundError(f"verbs without a handler or right: {sorted(missing)}")
        self._handlers = dict(handlers)
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

    def _begin(
        self, caller: Caller, verb: str, params: Any, key: str
    ) -> Awaitable[Any] | AsyncIterator[Any]:
        if verb not in VERBS:
            raise NotFoundError(unknown("request", verb[:80], VERBS))
        caller.need(RIGHTS[verb])
        asked = decode(record(VERBS[verb]), params, verb)
        if not key or verb not in CHANGES:
            return self._handlers[verb](caller, asked)
        once = self._requests.once(caller.name, key, verb, params)
        handle = partial(self._handlers[verb], replace(caller, once=once), asked)
        return handle() if verb in _BY_THEMSELVES else self._unless_recorded(once, handle)

    async def _unless_recorded(self, once: Once, handle: Callable[[], Any]) -> Any:
        """Return the recorded answer of a request, or else that of its handler.

        What a handler checks before its transaction may have changed since the first request, so
        that a repetition would fail there. The transaction looks for the key as well, because a
        repetition may come before the first request is committed.
        """
        found = await self._requests.recorded(once)
        return await handle() if found is None else found.answer

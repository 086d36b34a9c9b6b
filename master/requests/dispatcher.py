"""The dispatcher of requests: authorise, decode, call the handler.

It is independent of any transport. A front end (the unix socket, the reactor) identifies the
caller, passes the request and sends the result of `answer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from catena.core.errors import NotFoundError
from catena.core.records import decode
from catena.core.suggest import unknown
from catena.master.requests.once import Once, RequestLog
from catena.master.requests.rights import Caller
from catena.master.requests.verb import Reply, Stream, Verb


class Dispatcher:
    """Answers requests of callers that a front end has authenticated.

    Args:
        verbs: every verb by name (`verb.table`).
        requests: the stored requests that came with a key.
    """

    def __init__(self, verbs: Mapping[str, Verb], requests: RequestLog) -> None:
        self._verbs = verbs
        self._requests = requests

    def answer(
        self, caller: Caller, verb: str, request: Mapping[str, Any], key: str = ""
    ) -> Reply[Any] | Stream[Any, Any]:
        """Return the reply to a request, to be awaited, or a stream of items.

        Both consist of records of the verb's contract; the front end encodes them.

        Args:
            caller: as authenticated by the front end.
            verb: name of a contract.
            request: the fields of the contract's request record, untrusted.
            key: requests of one caller with the same key take effect once; "": no deduplication.

        Raises:
            NotFoundError: there is no such verb.
            NotAllowedError: the caller lacks the verb's right.
            RecordError: *request* does not fit the record.
        """
        known = self._verbs.get(verb)
        if known is None:
            raise NotFoundError(unknown("request", verb[:80], self._verbs))
        caller.need(known.right)
        asked = decode(known.ask.request, request, verb)
        if not key or known.ask.idempotent:
            return known.handler(caller, asked)
        once = self._requests.once(caller.name, key, verb, request)
        handle = partial(known.handler, replace(caller, once=once), asked)
        return handle() if known.repeats else self._unless_recorded(once, handle)

    async def _unless_recorded(self, once: Once, handle: Callable[[], Any]) -> Any:
        """Return the recorded answer of a request, or else the handler's.

        A handler's checks before its transaction may fail for a repetition, because the state has
        changed since. The transaction looks for the key as well, since a repetition may arrive
        before the first request is committed.
        """
        found = await self._requests.recorded(once)
        return await handle() if found is None else found.answer

"""The reactor's front end of the dispatcher: requests like a client's, inside the master."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from catena.client.requests.contract import Ask
from catena.core.errors import UsageError
from catena.core.records import encode
from catena.master.requests.dispatcher import Dispatcher
from catena.master.requests.rights import ADMINISTRATOR, Caller

Q = TypeVar("Q")
A = TypeVar("A")

#: The reactor acts for the administrator who wrote its rules.
REACTOR = Caller("Reactor", ADMINISTRATOR)


class ReactorFrontEnd:
    """Sends requests to the dispatcher on behalf of the reactor."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def ask(self, ask: Ask[Q, A, Any], request: Q, key: str = "") -> A:
        """Return the reply to a request.

        Args:
            ask: the verb's contract.
            request: its record.
            key: requests with the same key take effect once; "": no deduplication.

        Raises:
            UsageError: the answer is a stream.
            CatenaError: the error of the dispatcher or the handler.
        """
        answer = self._dispatcher.answer(REACTOR, ask.name, encode(request), key)
        if isinstance(answer, AsyncIterator):
            raise UsageError(f"{ask.name} streams; the reactor takes no streams")
        reply: A = await answer
        return reply

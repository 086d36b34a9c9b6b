"""The reactor in front of the dispatcher: it asks as a client does, inside the master."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from catena.client.requests.contract import Ask
from catena.client.typed import reply_of
from catena.core.errors import UsageError
from catena.core.records import encode
from catena.master.requests.dispatcher import Dispatcher
from catena.master.requests.rights import ADMINISTRATOR, Caller

Q = TypeVar("Q")
A = TypeVar("A")

#: The reactor acts for the administrator who wrote its rules.
REACTOR = Caller("Reactor", ADMINISTRATOR)


class ReactorDoor:
    """Asks the dispatcher on behalf of the reactor."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def ask(self, ask: Ask[Q, A, Any], request: Q, key: str = "") -> A:
        """Return the reply to a request.

        Args:
            ask: the verb's contract.
            request: its record.
            key: requests with the same key take effect once; "": this is a new one.

        Raises:
            UsageError: the answer is a stream.
            CatenaError: what the dispatcher or the handler refused.
        """
        answer = self._dispatcher.answer(REACTOR, ask.name, encode(request), key)
        if isinstance(answer, AsyncIterator):
            raise UsageError(f"{ask.name} streams; the reactor takes no streams")
        return reply_of(ask, encode(await answer))

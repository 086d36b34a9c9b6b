"""Requests that take effect once, however often a client sends them.

A client gives each changing request a key and repeats it with the same key after a lost answer.
The transaction that carries out the request also stores its key and its answer; a repetition finds
them and changes nothing. Jobs have a column of their own for the key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgpack
import sqlalchemy as sa

from catena.client.requests import contract
from catena.client.typed import reply_of
from catena.core import failpoints
from catena.core.clock import Clock
from catena.core.digest import sha256
from catena.core.errors import UsageError
from catena.core.ids import request_key
from catena.core.records import plain
from catena.master.requests import rows

T = TypeVar("T")

#: Length of the column in which JOBS stores the key of a request, in characters.
JOB_KEY_LIMIT = 512


class Reader(Protocol):
    """The part of the store that is used here."""

    async def read(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run *fn* on a snapshot."""


def hit_stored_failpoint() -> None:
    """Hit the failpoint after a request and its key were stored in the running transaction."""
    failpoints.hit("master.request.kept")


@dataclass(frozen=True, slots=True)
class Recorded:
    """The reply to an earlier identical request, as the record of its contract."""

    answer: Any


@dataclass(frozen=True, slots=True)
class Once:
    """The key with which one request of a user takes effect at most once."""

    user: str
    #: "": the client gave none, so there is no deduplication.
    key: str
    verb: str = ""
    #: SHA-256 of the request's fields, hex.
    digest: str = ""
    #: Arrival of the request, epoch seconds.
    at: float = 0.0

    def wrap(
        self, fn: Callable[[sa.Connection], T], restore: Callable[[Any], T] | None = None
    ) -> Callable[[sa.Connection], T]:
        """Return *fn* for `Store.write`; its transaction also stores the key and the answer.

        A repetition returns the stored answer and does not call *fn*. If *fn* raises, nothing is
        stored: the request had no effect, and a repetition is a new attempt.

        Args:
            fn: returns the request's whole reply, as the record of the verb's contract.
            restore: makes the result of *fn* from its stored data; required if that result is only
                a part of the reply.
        """
        if not self.key:
            return fn

        def run(conn: sa.Connection) -> T:
            found = self._stored(conn)
            if found is not None:
                return (restore or self._reply)(found.answer)
            value = fn(conn)
            new = rows.NewRequest(self.user, self.key, self.verb, self.digest, value, self.at)
            rows.insert(conn, new)
            hit_stored_failpoint()
            return value

        return run

    def recorded(self, conn: sa.Connection) -> Recorded | None:
        """Return the answer to an earlier request with this key, or None.

        Raises:
            UsageError: the earlier request was a different one.
        """
        found = self._stored(conn)
        return found and Recorded(self._reply(found.answer))

    def _stored(self, conn: sa.Connection) -> Recorded | None:
        row = rows.request(conn, self.user, self.key)
        if row is None:
            return None
        if (row.verb, row.digest) != (self.verb, self.digest):
            raise other_request(self.key, row.verb)
        return Recorded(row.answer)

    def _reply(self, stored: Any) -> Any:
        return reply_of(contract(self.verb), stored)


#: For a request without a key.
UNKEYED = Once("", "")


def other_request(key: str, what: str) -> UsageError:
    """Return the error for a key that was used for a different request."""
    return UsageError(
        f"request key {key} was used for another request before ({what}); a key belongs to one "
        "request and its repetitions: use a new key"
    )


def job_key(user: str, key: str) -> str | None:
    """Return the key of a job's request as stored in JOBS; None without a key.

    A reaction's key contains its file and its entry, whose lengths are not limited.
    """
    if not key:
        return None
    whole = f"{user}\n{key}"
    if len(whole) <= JOB_KEY_LIMIT:
        return whole
    return f"{user}\n{sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()}"


class RequestLog:
    """The stored requests that have a key.

    Args:
        store: the store.
        clock: for the time of arrival.
    """

    def __init__(self, store: Reader, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def once(self, user: str, key: str, verb: str, params: Mapping[str, Any]) -> Once:
        """Return the key of a request that has just arrived.

        Raises:
            BadNameError: *key* is invalid.
        """
        packed = msgpack.packb(params, default=plain, use_bin_type=True)
        digest = sha256(packed).hexdigest()
        return Once(user, request_key(key), verb, digest, self._clock.now().timestamp())

    async def recorded(self, once: Once) -> Recorded | None:
        """Return the answer to an earlier request with this key, or None.

        Raises:
            UsageError: the earlier request was a different one.
        """
        return await self._store.read(once.recorded)

    async def is_taken(self, user: str, key: str) -> bool:
        """Return whether a request of *user* with this key took effect.

        Raises:
            BadNameError: *key* is invalid.
        """
        checked, of_job = request_key(key), job_key(user, key)
        return await self._store.read(lambda conn: rows.is_taken(conn, user, checked, of_job))

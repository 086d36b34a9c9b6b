"""Requests that take effect once, however often a client sends them.

A client gives each request that changes something a key and repeats the request under the same key
when the answer was lost. The transaction that carries a request out also stores its key and its
answer; a repetition finds them and changes nothing. Jobs keep their keys in a column of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgpack
import sqlalchemy as sa

from catena.core import failpoints
from catena.core.clock import Clock
from catena.core.digest import sha256
from catena.core.errors import UsageError
from catena.core.ids import request_key
from catena.core.records import plain
from catena.master.store.fast.lookup import Lookup
from catena.master.store.fast.many_rows import ManyRows
from catena.master.store.tables import JOBS, REQUESTS

T = TypeVar("T")

#: Characters of the column in which JOBS keeps the key of a request.
JOB_KEY_LIMIT = 512

_INSERT = ManyRows(sa.insert(REQUESTS), ("user", "key", "verb", "digest", "answer", "at"))
_REQUEST = Lookup(
    sa.select(REQUESTS.c.verb, REQUESTS.c.digest, REQUESTS.c.answer).where(
        REQUESTS.c.user == sa.bindparam("b_user"), REQUESTS.c.key == sa.bindparam("b_key")
    )
)


class Reader(Protocol):
    """The part of the store that is needed here."""

    async def read(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run *fn* on a snapshot."""


def kept() -> None:
    """Say to tests that a request and its key are in the running transaction."""
    failpoints.hit("master.request.kept")


@dataclass(frozen=True, slots=True)
class Recorded:
    """The answer of a request that was carried out before."""

    answer: Any


@dataclass(frozen=True, slots=True)
class Once:
    """The key under which one request of a user is carried out at most once."""

    user: str
    #: "": the client gave none, and every request is a new one.
    key: str
    verb: str = ""
    #: SHA-256 of the request's fields, hex.
    digest: str = ""
    #: When the request came, epoch seconds.
    at: float = 0.0

    def wrap(self, fn: Callable[[sa.Connection], T]) -> Callable[[sa.Connection], T]:
        """Return *fn* for `Store.write`, with the key and the answer stored in its transaction.

        A repetition gives the stored answer and does not call *fn*. An error of *fn* stores
        nothing: the request had no effect, and a repetition is tried anew. The value of *fn* is
        the request's whole answer, as plain data.
        """
        if not self.key:
            return fn

        def run(conn: sa.Connection) -> T:
            found = self.recorded(conn)
            if found is not None:
                answer: T = found.answer
                return answer
            value = fn(conn)
            row = (self.user, self.key, self.verb, self.digest, value, self.at)
            _INSERT.run(conn, [row])
            kept()
            return value

        return run

    def recorded(self, conn: sa.Connection) -> Recorded | None:
        """Return the answer that an earlier request with this key got, or None.

        Raises:
            UsageError: that request was another one.
        """
        row = _REQUEST.one(conn, {"b_user": self.user, "b_key": self.key})
        if row is None:
            return None
        if (row.verb, row.digest) != (self.verb, self.digest):
            raise other_request(self.key, row.verb)
        return Recorded(row.answer)


#: Of a request that has no key.
UNKEYED = Once("", "")


def other_request(key: str, what: str) -> UsageError:
    """Return the error for a key that came with another request before."""
    return UsageError(
        f"request key {key} was used for another request before ({what}); a key belongs to one "
        "request and its repetitions: use a new key"
    )


def job_key(user: str, key: str) -> str | None:
    """Return the key of a job's request as JOBS keeps it; None without a key.

    A reaction's key names its file and its entry, which may be as long as they like.
    """
    if not key:
        return None
    whole = f"{user}\n{key}"
    if len(whole) <= JOB_KEY_LIMIT:
        return whole
    return f"{user}\n{sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()}"


class RequestLog:
    """What is known of requests that have a key.

    Args:
        store: where they are kept.
        clock: says when a request came.
    """

    def __init__(self, store: Reader, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def once(self, user: str, key: str, verb: str, params: Mapping[str, Any]) -> Once:
        """Return the key of a request that has just come.

        Raises:
            BadNameError: *key* is none.
        """
        packed = msgpack.packb(params, default=plain, use_bin_type=True)
        digest = sha256(packed).hexdigest()
        return Once(user, request_key(key), verb, digest, self._clock.now().timestamp())

    async def recorded(self, once: Once) -> Recorded | None:
        """Return the answer that an earlier request with this key got, or None.

        Raises:
            UsageError: that request was another one.
        """
        return await self._store.read(once.recorded)

    async def is_taken(self, user: str, key: str) -> bool:
        """Return whether a request of *user* with this key was carried out.

        Raises:
            BadNameError: *key* is none.
        """
        rule = (REQUESTS.c.user == user) & (REQUESTS.c.key == request_key(key))
        request, job = sa.select(REQUESTS.c.verb).where(rule), sa.select(JOBS.c.jid)
        job = job.where(JOBS.c.idempotency == job_key(user, key))

        def find(conn: sa.Connection) -> bool:
            return any(conn.execute(query).first() is not None for query in (request, job))

        return await self._store.read(find)

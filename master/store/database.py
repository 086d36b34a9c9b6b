"""The store: one writer thread with group commit, reader threads, SQLite or PostgreSQL.

Every change of one step is one function `fn(connection)` that runs inside a transaction of the
writer thread. The writer takes all functions that wait while the disk works and commits them
together, so that a single request pays one fsync and a thousand at once share it. Functions run in
the order in which they were posted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from catena.core import failpoints
from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError, TryLaterError
from catena.master.store import schema, sole
from catena.master.store.fast import direct
from catena.master.store.fast.log_room import CHECKPOINT_PAGES
from catena.master.store.fast.pending import Pending
from catena.master.store.sole import Sole

log = logging.getLogger(__name__)

T = TypeVar("T")

#: At most this many functions share one commit.
GROUP_LIMIT = 1000
#: How long a commit of nothing but lazy functions may be put off.
LAZY_SECONDS = 0.05
#: How long another process may hold the database before requests fail (reliability 3.3, "db").
LOCK_PATIENCE_SECONDS = 30.0
BUSY_TIMEOUT_MS = 5000
LOCKED_PAUSE_SECONDS = 0.2
READERS = 4
#: Pages that a reader keeps, KiB. SQLite's own 2 MB for each of them fill up with what fifty hosts
#: have said, and all of it is in the system's cache as well; the writer keeps that much.
READER_CACHE_KIB = 256
_HOOKS = "catena_after_commit"


class StoreUnavailableError(TryLaterError):
    """The database can't be written now; nothing of the request was kept."""


class StoreCorruptError(CatenaError):
    """The database file is damaged; restore it from a backup."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """A kind of work that many wait with at a time and that costs less for many at once."""

    #: Does it for one item.
    one: Callable[[sa.Connection, Any], Any]
    #: Does it for several items, to the same end as `one` for each in their order. Whatever it
    #: raises, nothing of it is kept and `one` is called for each.
    many: Callable[[sa.Connection, Sequence[Any]], object]


# Not frozen, as it should be: of the thousands that wait each would take three times as long.
@dataclass(slots=True)
class _Work:
    """One function, or one item of a bulk."""

    future: asyncio.Future[Any] | Pending
    lazy: bool
    fn: Callable[[sa.Connection], Any] | None = None
    bulk: Bulk | None = None
    item: Any = None

    def run(self, conn: sa.Connection) -> Any:
        if self.fn is not None:
            return self.fn(conn)
        assert self.bulk is not None
        return self.bulk.one(conn, self.item)


@dataclass(slots=True)
class _Outcome:
    works: Sequence[_Work]
    value: Any = None
    error: BaseException | None = None
    hooks: tuple[Callable[[], object], ...] = ()


def database_url(settings: MasterSettings) -> str:
    """Return the URL of the database that *settings* name: theirs, or a file in their folder."""
    return settings.database or f"sqlite:///{Path(settings.state_dir) / 'master.db'}"


def after_commit(conn: sa.Connection, hook: Callable[[], object]) -> None:
    """Have *hook* called in the event loop once the running transaction is durable.

    Call it from inside a function given to `Store.post`; if that function fails, so that nothing
    of it is kept, the hook is dropped.
    """
    conn.info.setdefault(_HOOKS, []).append(hook)


class Store:
    """The master's database.

    Args:
        url: SQLAlchemy URL, "sqlite:////path/file.db" or "postgresql+psycopg://…".
        alone: on PostgreSQL, keep every other master away while the store is open.
    """

    def __init__(self, url: str, *, alone: bool = False) -> None:
        self._url = sa.make_url(url)
        #: Called in the event loop when another master has taken the database.
        self.on_usurped: Callable[[str], object] = log.critical
        #: Called in the event loop when damage is found, once.
        self.on_damage: Callable[[str], object] = log.critical
        self._damage = ""
        self._sqlite = self._url.get_backend_name() == "sqlite"
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-read")
        self._writer: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sole = None if self._sqlite or not alone else Sole()
        self._write_engine = self._engine(writer=True)
        self._read_engine = self._engine(writer=False)

    @property
    def dialect(self) -> str:
        """Return "sqlite" or "postgresql"."""
        return self._url.get_backend_name()

    @property
    def damage(self) -> str:
        """What was found damaged in the database since it was opened; "" if nothing was."""
        return self._damage

    def report_damage(self, text: str) -> None:
        """Record that the database is damaged: nothing new is begun on it. Any thread may call."""
        if not self._damage:
            self._damage = text
            self._call(self.on_damage, text)

    def refuse_when_damaged(self) -> None:
        """Raise StoreCorruptError if the database was found damaged."""
        if self._damage:
            raise StoreCorruptError(
                f"nothing new is begun: {self._damage}; "
                "stop the master, then: catena store restore BACKUP"
            )

    async def open(self) -> None:
        """Create or upgrade the schema and start the writer.

        Raises:
            StoreUnavailableError: the database can't be reached or is locked.
            StoreCorruptError: it is damaged.
        """
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(self._readers, self._prepare)
        self._writer = threading.Thread(target=self._write_forever, name="store-write")
        self._writer.daemon = True
        self._writer.start()

    async def close(self) -> None:
        """Commit what was posted, then close every connection."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._queue.put(None)
            await asyncio.to_thread(writer.join)
        self._readers.shutdown(wait=True)
        self._write_engine.dispose()
        self._read_engine.dispose()

    def post(self, fn: Callable[[sa.Connection], T], *, lazy: bool = False) -> asyncio.Future[T]:
        """Queue *fn* for the next transaction; the future is done once it is durable.

        Args:
            fn: called in the writer thread; it must neither block nor touch the loop's objects.
            lazy: may wait up to 50 ms for company. Order is kept all the same.
        """
        future: asyncio.Future[T] = self._opened().create_future()
        self._queue.put(_Work(future, lazy, fn))
        return future

    def post_item(self, bulk: Bulk, item: Any, *, lazy: bool = False) -> Pending:
        """Queue one item of a kind of work, as `post`; what is pending tells no value."""
        self._opened()
        pending = Pending()
        self._queue.put(_Work(pending, lazy, None, bulk, item))
        return pending

    def _opened(self) -> asyncio.AbstractEventLoop:
        if self._writer is None or self._loop is None:
            raise StoreUnavailableError("the store is closed")
        return self._loop

    def later(self, fn: Callable[[sa.Connection], object]) -> None:
        """Queue *fn* as lazy work that nobody waits for; its error is logged."""
        self.post(fn, lazy=True).add_done_callback(_log_error)

    async def write(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run *fn* in a transaction; return its value once it is durable."""
        return await self.post(fn)

    async def prove_alone(self) -> None:
        """Notice a lost lock although nothing is to be stored; SQLite's lock can't be lost."""
        if self._sole is not None:
            await self.write(lambda conn: conn.exec_driver_sql("SELECT 1").close())

    async def read(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run *fn* on a snapshot, in a reader thread; it must not write."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._reading, fn)

    def _reading(self, fn: Callable[[sa.Connection], T]) -> T:
        try:
            with self._read_engine.connect() as conn, conn.begin():
                return fn(conn)
        except sa.exc.DBAPIError as error:
            raise self._told(error) from error

    def _told(self, error: sa.exc.DBAPIError) -> CatenaError:
        found = _translated(error)
        if isinstance(found, StoreCorruptError):
            self.report_damage(str(found))
        return found

    def _engine(self, *, writer: bool) -> sa.Engine:
        size = 1 if writer else READERS
        engine = sa.create_engine(self._url, pool_size=size, max_overflow=0)
        if writer and self._sole is not None:
            sole.guard(engine, self._sole)
        if self._sqlite:
            sa.event.listen(engine, "connect", _set_up_sqlite)
            if writer:
                sa.event.listen(engine, "begin", direct.begin)
            else:
                sa.event.listen(engine, "connect", _keep_little)
                sa.event.listen(engine, "begin", _begin_to_read)
        return engine

    def _prepare(self) -> None:
        if self._sqlite and self._url.database:
            _make_private(Path(self._url.database))
        try:
            schema.upgrade(self._write_engine)
            if self._sole is not None:
                with self._write_engine.begin() as conn:
                    self._sole.mark(conn)
        except sa.exc.DBAPIError as error:
            raise _translated(error) from error

    def _write_forever(self) -> None:
        with self._write_engine.connect() as conn:
            while (first := self._queue.get()) is not None:
                group, last = self._gather(first)
                self._commit_group(conn, group)
                if last:
                    break

    def _gather(self, first: _Work) -> tuple[list[_Work], bool]:
        """Return what shall be committed together, and whether the store closes after it."""
        group = [first]
        deadline = time.monotonic() + LAZY_SECONDS
        urgent = not first.lazy
        while len(group) < GROUP_LIMIT:
            try:
                wait = 0.0 if urgent else max(0.0, deadline - time.monotonic())
                work = self._queue.get(block=wait > 0, timeout=wait or None)
            except queue.Empty:
                break
            if work is None:
                return group, True
            urgent = urgent or not work.lazy
            group.append(work)
        return group, False

    def _commit_group(self, conn: sa.Connection, group: list[_Work]) -> None:
        """Commit *group*; where it can't be done together, each function by itself."""
        try:
            outcomes = self._commit(conn, group)
        except sa.exc.DBAPIError as error:
            if len(group) > 1:
                # One function may have spoilt it for the others.
                for work in group:
                    self._commit_group(conn, [work])
                return
            outcomes = [_Outcome(group, error=self._told(error))]
        except sole.NotAloneError as error:
            outcomes = [_Outcome(group, error=error)]
            self._call(self.on_usurped, str(error))
        except Exception as error:  # the edge of the writer's thread, which must go on
            log.exception("the store's writer failed")
            outcomes = [_Outcome(group, error=error)]
        self._report(outcomes)

    def _commit(self, conn: sa.Connection, group: list[_Work]) -> list[_Outcome]:
        give_up = time.monotonic() + LOCK_PATIENCE_SECONDS
        while True:
            try:
                with direct.transaction(conn):
                    outcomes = _run_group(conn, group)
                    failpoints.hit("master.commit.before")
                failpoints.hit("master.commit.after")
                return outcomes
            except _SingleError as error:
                return [_Outcome(group, error=error.cause)]
            except sa.exc.DBAPIError as error:
                passing = error.connection_invalidated or _is_locked(error)
                if not passing or time.monotonic() > give_up:
                    raise
                time.sleep(LOCKED_PAUSE_SECONDS)

    def _report(self, outcomes: list[_Outcome]) -> None:
        self._call(_settle, outcomes)

    def _call(self, function: Callable[[Any], object], argument: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            # The loop is closed: nobody waits any more; what was committed stays committed.
            return


class _SingleError(Exception):
    """Carries the error of a function that had a transaction for itself out of it."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _run_group(conn: sa.Connection, group: Sequence[_Work]) -> list[_Outcome]:
    if len(group) == 1:
        return [_run_one(conn, group[0], alone=True)]
    outcomes: list[_Outcome] = []
    for works in _alike(group):
        found = _run_many(conn, works) if len(works) > 1 else None
        outcomes += [found] if found else [_run_one(conn, work, alone=False) for work in works]
    return outcomes


def _alike(group: Sequence[_Work]) -> Iterator[list[_Work]]:
    """Yield *group* in its order, neighbours that are items of the same bulk together."""
    works: list[_Work] = []
    for work in group:
        if works and (work.bulk is None or work.bulk is not works[0].bulk):
            yield works
            works = []
        works.append(work)
    yield works


def _run_many(conn: sa.Connection, works: Sequence[_Work]) -> _Outcome | None:
    """Return the outcome of items that were done together; None where they could not be."""
    conn.info[_HOOKS] = []
    bulk = works[0].bulk
    assert bulk is not None
    try:
        with direct.apart(conn):
            bulk.many(conn, [work.item for work in works])
    except sa.exc.IntegrityError:
        return None
    except sa.exc.DBAPIError:
        raise
    except Exception:  # noqa: BLE001  # one of them is at fault: each by itself shows which
        return None
    return _Outcome(works, hooks=tuple(conn.info[_HOOKS]))


def _run_one(conn: sa.Connection, work: _Work, *, alone: bool) -> _Outcome:
    conn.info[_HOOKS] = []
    try:
        if alone:
            value = work.run(conn)
        else:
            with direct.apart(conn):
                value = work.run(conn)
    except sa.exc.IntegrityError as error:
        return _failed(work, error, alone)
    except sa.exc.DBAPIError:
        # Disk full, lost connection: the whole transaction is in doubt, so the group fails.
        raise
    except Exception as error:  # noqa: BLE001  # the edge of the writer: it goes to who asked
        return _failed(work, error, alone)
    return _Outcome((work,), value=value, hooks=tuple(conn.info[_HOOKS]))


def _failed(work: _Work, error: Exception, alone: bool) -> _Outcome:
    if alone:
        raise _SingleError(error)
    return _Outcome((work,), error=error)


def _log_error(future: asyncio.Future[Any]) -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None:
        log.error("the store could not keep something: %s", error)


def _settle(outcomes: list[_Outcome]) -> None:
    """In the loop: hooks first, in order of commit, then those who wait."""
    for outcome in outcomes:
        for hook in outcome.hooks:
            try:
                hook()
            except Exception:  # one hook's fault must not keep the others waiting for ever
                log.exception("something that follows a commit failed")
    for outcome in outcomes:
        for work in outcome.works:
            if work.future.done():
                continue
            if outcome.error is not None:
                work.future.set_exception(outcome.error)
            else:
                work.future.set_result(outcome.value)


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    # The driver's own transaction control would begin deferred transactions, which fail with
    # "database is locked" at once when a read turns into a write.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        f"wal_autocheckpoint={CHECKPOINT_PAGES}",
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        "foreign_keys=ON",
        "temp_store=MEMORY",
        "secure_delete=OFF",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_to_read(conn: sa.Connection) -> None:
    conn.exec_driver_sql("BEGIN")


def _keep_little(connection: Any, _record: Any) -> None:
    connection.execute(f"PRAGMA cache_size=-{READER_CACHE_KIB}")


def _make_private(path: Path) -> None:
    """Make the file with mode 0600 first: its -wal and -shm take the same mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.close(handle)


def _is_locked(error: sa.exc.DBAPIError) -> bool:
    return "database is locked" in str(error.orig)


def _translated(error: sa.exc.DBAPIError) -> CatenaError:
    text = str(error.orig)
    if "malformed" in text or "not a database" in text:
        return StoreCorruptError(
            f"the database is damaged ({text}); stop the master, then: catena store restore BACKUP"
        )
    if isinstance(error, (sa.exc.OperationalError, sa.exc.InterfaceError)):
        return StoreUnavailableError(f"the database can't be used now: {text}")
    return CatenaError(f"the database refused: {text}")

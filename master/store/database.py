"""The store: one writer thread with group commit, reader threads, SQLite or PostgreSQL.

Every change of one step is a function `fn(connection)` that runs in a transaction of the writer
thread. While the disk is busy, functions are queued; the writer then commits all of them together.
A single request costs one fsync, and a thousand concurrent requests share one. Functions run in
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
from catena.master.store.metadata import RESTORE
from catena.master.store.metadata import StoreCorruptError as StoreCorruptError
from catena.master.store.sole import Sole

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Maximum number of functions in one commit.
GROUP_LIMIT = 1000
#: Seconds by which a commit of lazy functions only may be delayed.
LAZY_SECONDS = 0.05
#: Seconds for which another process may lock the database before requests fail (reliability 3.3).
LOCK_PATIENCE_SECONDS = 30.0
BUSY_TIMEOUT_MS = 5000
LOCKED_PAUSE_SECONDS = 0.2
READERS = 4
#: Page cache of a reader in KiB. SQLite's default of 2 MB per reader would fill with data that is
#: in the system's cache anyway; the writer uses that default.
READER_CACHE_KIB = 256
_HOOKS = "catena_after_commit"


class StoreUnavailableError(TryLaterError):
    """The database cannot be written now; nothing of the request was stored."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """A kind of work that costs less for many items together than for each item separately."""

    #: Processes one item.
    one: Callable[[sa.Connection, Any], Any]
    #: Processes several items, with the same effect as `one` for each in order. If it raises,
    #: everything is rolled back and `one` is called for each.
    many: Callable[[sa.Connection, Sequence[Any]], object]


# Not frozen: creating frozen instances would take three times as long, for thousands of them.
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
    """Return the database URL of *settings*, by default a file in their state folder."""
    return settings.database or f"sqlite:///{Path(settings.state_dir) / 'master.db'}"


def is_file(url: str) -> bool:
    """Return whether a database URL names a file of SQLite."""
    return url.startswith("sqlite")


def after_commit(conn: sa.Connection, hook: Callable[[], object]) -> None:
    """Call *hook* in the event loop once the running transaction is durable.

    Call it from a function given to `Store.post`. If that function fails, it is rolled back and
    the hook is dropped.
    """
    conn.info.setdefault(_HOOKS, []).append(hook)


class Store:
    """The master's database.

    Args:
        url: SQLAlchemy URL, "sqlite:////path/file.db" or "postgresql+psycopg://…".
        alone: on PostgreSQL, hold a lock against other masters while the store is open.
    """

    def __init__(self, url: str, *, alone: bool = False) -> None:
        self._url = sa.make_url(url)
        #: Called in the event loop when another master has taken the database's lock.
        self.on_lock_lost: Callable[[str], object] = log.critical
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
        """Return the damage found since the database was opened; "" if there is none."""
        return self._damage

    def report_damage(self, text: str) -> None:
        """Record that the database is damaged, which blocks new work. Any thread may call it."""
        if not self._damage:
            self._damage = text
            self._call(self.on_damage, text)

    def refuse_when_damaged(self) -> None:
        """Raise StoreCorruptError if the database was found damaged."""
        if self._damage:
            raise StoreCorruptError(f"new jobs are refused: {self._damage}; {RESTORE}")

    async def open(self) -> None:
        """Create or upgrade the schema and start the writer.

        Raises:
            StoreUnavailableError: the database can't be reached or is locked.
            StoreCorruptError: the database is damaged.
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
        """Queue *fn* for the next transaction; the future completes once it is durable.

        Args:
            fn: called in the writer thread; it must neither block nor use objects of the loop.
            lazy: may wait up to LAZY_SECONDS for others. The order is kept nevertheless.
        """
        future: asyncio.Future[T] = self._opened().create_future()
        self._queue.put(_Work(future, lazy, fn))
        return future

    def post_item(self, bulk: Bulk, item: Any, *, lazy: bool = False) -> Pending:
        """Queue one item of bulk work like `post`; the Pending has no result."""
        self._opened()
        pending = Pending()
        self._queue.put(_Work(pending, lazy, None, bulk, item))
        return pending

    def _opened(self) -> asyncio.AbstractEventLoop:
        if self._writer is None or self._loop is None:
            raise StoreUnavailableError("the store is closed")
        return self._loop

    def later(self, fn: Callable[[sa.Connection], object]) -> None:
        """Queue *fn* as lazy work whose result nobody awaits; its error is logged."""
        self.post(fn, lazy=True).add_done_callback(_log_error)

    async def write(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run *fn* in a transaction; return its value once it is durable."""
        return await self.post(fn)

    async def prove_alone(self) -> None:
        """Check the lock even if nothing is stored; SQLite's lock cannot be lost."""
        if self._sole is not None:
            await self.write(lambda conn: conn.exec_driver_sql("SELECT 1").close())

    async def read(self, fn: Callable[[sa.Connection], T]) -> T:
        """Run *fn* on a snapshot in a reader thread; it must not write."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._reading, fn)

    def _reading(self, fn: Callable[[sa.Connection], T]) -> T:
        try:
            with self._read_engine.connect() as conn, conn.begin():
                return fn(conn)
        except sa.exc.DBAPIError as error:
            raise self._reported(error) from error
        except StoreCorruptError as error:
            self.report_damage(error.damage)
            raise

    def _reported(self, error: sa.exc.DBAPIError) -> CatenaError:
        """Return *error* as one of this module's errors, and report damage."""
        found = _translated(error)
        if isinstance(found, StoreCorruptError):
            self.report_damage(found.damage)
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
                sa.event.listen(engine, "connect", _limit_cache)
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
        """Return the functions to commit together, and whether the store closes afterwards."""
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
        """Commit *group*; if that fails, commit each function separately."""
        try:
            outcomes = self._commit(conn, group)
        except sa.exc.DBAPIError as error:
            if len(group) > 1:
                # One function may have caused the failure of all.
                for work in group:
                    self._commit_group(conn, [work])
                return
            outcomes = [_Outcome(group, error=self._reported(error))]
        except sole.NotAloneError as error:
            outcomes = [_Outcome(group, error=error)]
            self._call(self.on_lock_lost, str(error))
        except Exception as error:  # the edge of the writer's thread, which must continue
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
        for outcome in outcomes:
            if isinstance(outcome.error, StoreCorruptError):
                self.report_damage(outcome.error.damage)
        self._call(_settle, outcomes)

    def _call(self, function: Callable[[Any], object], argument: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            # The loop is closed, so no caller waits any more; committed work stays committed.
            return


class _SingleError(Exception):
    """Carries the error of a function out of its transaction, which is rolled back."""

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
    """Yield *group* in order, with neighbouring items of the same bulk combined."""
    works: list[_Work] = []
    for work in group:
        if works and (work.bulk is None or work.bulk is not works[0].bulk):
            yield works
            works = []
        works.append(work)
    yield works


def _run_many(conn: sa.Connection, works: Sequence[_Work]) -> _Outcome | None:
    """Return the outcome of items that were done together; None if that failed."""
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
    except Exception:  # noqa: BLE001  # caused by one item; separate runs show by which
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
        # Disk full or connection lost: the state of the transaction is unknown, so the group
        # fails.
        raise
    except Exception as error:  # noqa: BLE001  # the edge of the writer: the caller gets it
        return _failed(work, error, alone)
    return _Outcome((work,), value=value, hooks=tuple(conn.info[_HOOKS]))


def _failed(work: _Work, error: Exception, alone: bool) -> _Outcome:
    if alone:
        raise _SingleError(error)
    return _Outcome((work,), error=error)


def _log_error(future: asyncio.Future[Any]) -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None:
        log.error("a background write to the store failed: %s", error)


def _settle(outcomes: list[_Outcome]) -> None:
    """Call the hooks in order of commit, then complete the futures; runs in the event loop."""
    for outcome in outcomes:
        for hook in outcome.hooks:
            try:
                hook()
            except Exception:  # an error of one hook must not affect the others
                log.exception("a callback after a commit failed")
    for outcome in outcomes:
        for work in outcome.works:
            if work.future.done():
                continue
            if outcome.error is not None:
                work.future.set_exception(outcome.error)
            else:
                work.future.set_result(outcome.value)


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    # The driver would begin deferred transactions, which fail at once with "database is locked"
    # when a read becomes a write.
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


def _limit_cache(connection: Any, _record: Any) -> None:
    connection.execute(f"PRAGMA cache_size=-{READER_CACHE_KIB}")


def _make_private(path: Path) -> None:
    """Create the file with mode 0600, which its -wal and -shm files inherit."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.close(handle)


def _is_locked(error: sa.exc.DBAPIError) -> bool:
    return "database is locked" in str(error.orig)


def _translated(error: sa.exc.DBAPIError) -> CatenaError:
    text = str(error.orig)
    if "malformed" in text or "not a database" in text:
        return StoreCorruptError.because(text)
    if isinstance(error, (sa.exc.OperationalError, sa.exc.InterfaceError)):
        return StoreUnavailableError(f"the database can't be used now: {text}")
    return CatenaError(f"the database refused a statement: {text}")

"""The store: one writer, group commit, and what a fault in one request does to the others."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catena.core.clock import SystemClock
from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError, UsageError
from catena.master.chains import rows
from catena.master.contributions import retention as retentions
from catena.master.events import bus as bus_module
from catena.master.events.bus import EventBus
from catena.master.process import retention
from catena.master.store import chain_tables, database, schema, tables
from catena.master.store.database import (
    Bulk,
    Store,
    StoreCorruptError,
    StoreUnavailableError,
    after_commit,
)
from catena.master.store.execution_tables import RUNS
from catena.master.store.fast.log_room import CHECKPOINT_PAGES
from catena.master.store.metadata import Ready
from tests.support.waiting import run_ready_tasks, until

FACTS = tables.FACTS
VERSIONS = Path(schema.__file__).parent / "migrations" / "versions"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Store]:
    store = Store(f"sqlite:///{path / 'master.db'}")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with opened(tmp_path) as made:
        yield made


def put(name: str, value: str = "x") -> Callable[[sa.Connection], None]:
    def insert(conn: sa.Connection) -> None:
        conn.execute(sa.insert(FACTS).values(name=name, value=value))

    return insert


async def dropped_events(store: Store) -> int:
    """Drop every event that may go; return how many."""
    kept = retention.limits(retentions(), MasterSettings(), 9e12)
    return (await retention.prune(store, retentions(), kept))["events"]


async def names(store: Store) -> list[str]:
    query = sa.select(FACTS.c.name).order_by(FACTS.c.name)
    return await store.read(lambda conn: [row.name for row in conn.execute(query)])


async def test_open_runs_are_found_by_an_index_without_reading_ended_ones(store: Store) -> None:
    mine, live = chain_tables.CHAIN_MINIONS, chain_tables.LIVE
    fenced = sa.select(mine).where(live, mine.c.state == "fenced")
    asked = {
        "ix_chain_minion_live_state": sa.select(mine).where(rows.OPEN_RUNS),
        "ix_chain_minion_live_minion (minion=? AND state=?)": fenced.where(
            mine.c.minion == "web1"
        ),
        "ix_chain_minion_live_minion": sa.select(mine).where(
            rows.OPEN_RUNS, mine.c.minion == "web1"
        ),
        "ix_chain_minion_live_s": fenced,
        "ix_run_engine_state": rows.RUNNING_CHAINS.where(RUNS.c.state == "scheduled"),
    }

    def plan(conn: sa.Connection, query: sa.Select[Any]) -> str:
        text = query.compile(conn, compile_kwargs={"literal_binds": True})
        return str(conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all())

    for index, query in asked.items():
        assert index in await store.read(partial(plan, query=query))


def test_known_head_is_the_newest_migration() -> None:
    revisions = sorted(path.name[1:5] for path in VERSIONS.glob("r*.py"))
    assert revisions[-1] == schema.HEAD


async def test_database_of_a_newer_version_is_not_changed(tmp_path: Path) -> None:
    newer = sa.text("UPDATE alembic_version SET version_num='9999'")
    async with opened(tmp_path) as store:
        await store.write(lambda conn: conn.execute(newer))
    with pytest.raises(schema.SchemaError, match="9999"):
        async with opened(tmp_path):
            pass


async def test_functions_run_in_order_and_are_durable_when_awaited(tmp_path: Path) -> None:
    order: list[int] = []

    async with opened(tmp_path) as store:

        def note(number: int) -> Callable[[sa.Connection], None]:
            return lambda conn: order.append(number)

        futures = [store.post(note(n), lazy=n % 3 == 0) for n in range(500)]
        await asyncio.gather(*futures)
        await store.write(put("a"))
        with sqlite3.connect(tmp_path / "master.db") as other:
            assert other.execute("SELECT name FROM fact").fetchall() == [("a",)]
        other.close()
    assert order == list(range(500))


async def test_failed_write_does_not_affect_the_savepoint_of_the_next(store: Store) -> None:
    def fail(conn: sa.Connection) -> None:
        put("undone")(conn)
        raise UsageError("no")

    works = [store.post(work, lazy=True) for work in (put("a"), fail, put("b"), fail)]
    found = await asyncio.gather(*works, return_exceptions=True)
    assert [type(one) for one in found] == [type(None), UsageError, type(None), UsageError]
    assert await names(store) == ["a", "b"]


async def test_readers_have_a_small_cache_and_the_writer_a_large_log(
    store: Store,
) -> None:
    def ask(name: str) -> Callable[[sa.Connection], int]:
        return lambda conn: int(conn.exec_driver_sql(f"PRAGMA {name}").scalar_one())

    assert await store.read(ask("cache_size")) == -database.READER_CACHE_KIB
    assert await store.write(ask("wal_autocheckpoint")) == CHECKPOINT_PAGES
    assert await store.write(ask("synchronous")) == 2


async def test_failing_write_does_not_affect_other_writes(tmp_path: Path) -> None:
    told: list[str] = []

    async with opened(tmp_path) as store:

        def bad(conn: sa.Connection) -> None:
            put("bad")(conn)
            after_commit(conn, lambda: told.append("bad"))
            raise UsageError("no")

        def good(conn: sa.Connection) -> None:
            put("good")(conn)
            after_commit(conn, lambda: told.append("good"))

        lazy = store.post(put("first"), lazy=True)
        outcomes = await asyncio.gather(
            lazy,
            store.post(bad),
            store.post(good),
            store.post(put("good")),
            return_exceptions=True,
        )
        assert [type(one) for one in outcomes] == [
            type(None), UsageError, type(None), sa.exc.IntegrityError,
        ]  # fmt: skip
        with pytest.raises(UsageError):
            await store.write(bad)
        assert await names(store) == ["first", "good"]
    assert told == ["good"]


async def test_queued_items_are_written_together_and_a_bad_one_fails_alone(
    store: Store,
) -> None:
    together: list[list[str]] = []

    def one(conn: sa.Connection, name: str) -> None:
        if name == "bad":
            raise UsageError("bad")
        put(name)(conn)
        after_commit(conn, lambda: told.append(name))

    def many(conn: sa.Connection, some: Sequence[str]) -> None:
        together.append(list(some))
        for name in some:
            one(conn, name)

    told: list[str] = []

    bulk = Bulk(one, many)
    # What they wait behind keeps the writer busy until all of them are there.
    busy = threading.Event()
    first = store.post(lambda conn: busy.wait(60))
    items = ["a", "b"]
    found = [store.post_item(bulk, name) for name in items]
    middle = store.post(put("c"))
    found += [store.post_item(bulk, name) for name in ("d", "bad", "e")]
    busy.set()
    results = await asyncio.gather(*found, return_exceptions=True)
    await asyncio.gather(first, middle)
    assert [type(result) for result in results] == [
        type(None), type(None), type(None), UsageError, type(None),
    ]  # fmt: skip
    assert together == [["a", "b"], ["d", "bad", "e"]]
    assert told == ["a", "b", "d", "e"]
    assert await names(store) == ["a", "b", "c", "d", "e"]


async def test_write_that_breaks_its_transaction_fails_alone(store: Store) -> None:
    def spoil(conn: sa.Connection) -> None:
        conn.execute(sa.text("SELECT * FROM nowhere"))

    outcomes = await asyncio.gather(
        store.post(put("a")), store.post(spoil), store.post(put("b")), return_exceptions=True
    )
    assert isinstance(outcomes[1], StoreUnavailableError)
    assert await names(store) == ["a", "b"]


async def test_failing_commit_hook_does_not_block_callers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as store:

        def hooked(conn: sa.Connection) -> int:
            after_commit(conn, lambda: 1 // 0)
            return 7

        assert await store.write(hooked) == 7
    assert "ZeroDivisionError" in caplog.text


async def test_store_waits_for_a_database_locked_by_another_process(
    store: Store, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "master.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = store.post(put("a"))
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    other.execute("COMMIT")
    await asyncio.wait_for(waiting, 60)
    other.close()


async def test_database_that_stays_locked_is_unavailable_until_it_is_unlocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 50)

    async with opened(tmp_path) as store:
        other = sqlite3.connect(tmp_path / "master.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError):
            await store.write(put("a"))
        other.close()
        await store.write(put("a"))


async def test_store_refuses_writes_on_a_full_disk_and_loses_nothing(store: Store) -> None:
    await store.write(put("kept"))

    def limit(conn: sa.Connection) -> None:
        pages = conn.execute(sa.text("PRAGMA page_count")).scalar()
        conn.execute(sa.text(f"PRAGMA max_page_count = {pages}"))

    await store.write(limit)
    with pytest.raises(StoreUnavailableError, match="full"):
        await store.write(put("big", "x" * 1_000_000))
    assert await names(store) == ["kept"]


async def test_damaged_database_is_reported_as_damaged(tmp_path: Path) -> None:
    (tmp_path / "master.db").write_bytes(b"no database at all" * 1000)

    with pytest.raises(StoreCorruptError, match="store restore"):
        async with opened(tmp_path):
            raise AssertionError("opened")


async def test_closed_store_refuses_writes(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'master.db'}")
    with pytest.raises(StoreUnavailableError):
        await store.write(put("a"))
    await store.open()
    late = store.post(put("posted"), lazy=True)
    await store.close()
    await late
    with pytest.raises(StoreUnavailableError):
        store.post(put("b"))
    with sqlite3.connect(tmp_path / "master.db") as other:
        assert other.execute("SELECT name FROM fact").fetchall() == [("posted",)]
    other.close()


async def test_followers_see_events_in_order_whether_kept_in_memory_or_not(store: Store) -> None:
    bus = EventBus(store, SystemClock())
    await bus.open()
    for number in range(30):
        await bus.fire(f"app/{number % 2}", {"n": number})
    later = EventBus(store, SystemClock())  # as after a restart: nothing in memory
    await later.open()
    for source in (bus, later):
        seen = []
        async for event in source.subscribe("app/1", 0):
            seen.append(event.data["n"])
            if event.seq >= bus.last:
                break
        assert seen == list(range(1, 30, 2))


async def test_follower_of_some_tags_does_not_read_other_events(
    store: Store,
) -> None:
    bus = EventBus(store, SystemClock())
    await bus.open()
    fired = [await bus.fire(f"app/{number}/x", {"n": number}) for number in range(6)]
    later = EventBus(store, SystemClock())  # as after a restart: nothing in memory
    await later.open()
    for source in (bus, later):
        follower = source.follow(("app/1/*", "*/4/x"), 0)
        stretch = await anext(follower)
        assert [event.data["n"] for event in stretch.events] == [1, 4]
        assert stretch.upto == fired[-1].seq
        passed = await anext(source.follow(("other/*",), 0))
        assert (passed.upto, list(passed.events)) == (fired[-1].seq, [])


async def test_follower_receives_its_events_at_once_and_the_table_position_soon(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = EventBus(store, SystemClock())
    await bus.open()
    follower = bus.follow(("app/1",))
    word = asyncio.ensure_future(anext(follower))
    await run_ready_tasks(1)
    first = await bus.fire("app/0", {})
    assert not word.done()
    passed = await word
    assert (passed.upto, list(passed.events)) == (first.seq, [])
    # However long the disk takes from here on.
    monkeypatch.setattr(bus_module, "QUIET_SECONDS", 600.0)
    word = asyncio.ensure_future(anext(follower))
    await bus.fire("app/0", {})
    second = await bus.fire("app/1", {})
    assert (await word).events == [second]


async def test_reading_a_followers_position_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "QUIET_SECONDS", 600.0)

    async with opened(tmp_path) as store:
        bus = EventBus(store, SystemClock())
        await bus.open()
        follower = bus.follow(("app/1",))
        word = asyncio.ensure_future(anext(follower))
        await run_ready_tasks(1)
        passed = await bus.fire("app/0", {})
        assert not word.done()
        await bus.notify_followers()
        assert word.done() and word.result().upto == passed.seq


async def test_cursor_outlives_its_process_and_holds_back_pruning(store: Store) -> None:
    bus = EventBus(store, SystemClock())
    await bus.open()
    first = await bus.fire("app/a", {})
    assert await bus.cursor("reactor") == first.seq
    second = await bus.fire("app/b", {})
    assert await dropped_events(store) == 1
    assert await EventBus(store, SystemClock()).cursor("reactor") == first.seq
    await bus.advance("reactor", second.seq)
    assert await dropped_events(store) == 1


async def test_events_are_read_by_position_without_deleted_ones(store: Store) -> None:
    bus = EventBus(store, SystemClock())
    await bus.open()
    fired = [await bus.fire(f"app/{number}", {"n": number}, "web1") for number in range(5)]
    gone = sa.delete(tables.EVENTS).where(tables.EVENTS.c.seq == fired[2].seq)
    await store.write(lambda conn: conn.execute(gone) and None)
    assert await bus.events_at([event.seq for event in fired[1:4]]) == [fired[1], fired[3]]
    assert await bus.events_at([fired[2].seq]) == []


async def test_follower_continues_after_pruned_events(store: Store) -> None:
    await EventBus(store, SystemClock()).fire("app/a", {})
    bus = EventBus(store, SystemClock())
    await bus.open()
    await dropped_events(store)
    reads = 0
    read = store.read

    def counted(fn: Callable[[sa.Connection], Any]) -> Awaitable[Any]:
        nonlocal reads
        reads += 1
        return read(fn)

    store.read = counted  # type: ignore[method-assign,assignment]
    follower = asyncio.ensure_future(anext(bus.subscribe("*", 0)))
    await until(lambda: reads)
    # A follower that reads without pause would read between these.
    for _ in range(20):
        await read(lambda conn: conn.execute(sa.text("SELECT 1")))
        await run_ready_tasks()
    fired = await bus.fire("app/b", {})
    assert await follower == fired
    assert reads == 1


@pytest.mark.parametrize("tag", ["", "a\nb", "x" * 1025, "\x1b[2J"])
async def test_tag_with_control_characters_is_refused(store: Store, tag: str) -> None:
    bus = EventBus(store, SystemClock())
    with pytest.raises(CatenaError, match="tag"):
        await bus.fire(tag, {})


DAMAGED = (b"\xc1", b"\xa5ab", b"\x80\x80", b"\xa2\xff\xfe", b"\x81\x90\x01")


@pytest.mark.parametrize("value", DAMAGED)
@pytest.mark.parametrize("way", ["read", "write"])
async def test_damaged_value_is_reported_as_damage_of_the_database(
    tmp_path: Path, value: bytes, way: str
) -> None:
    async with opened(tmp_path) as store:
        found: list[str] = []
        store.on_damage = found.append
        row = {"tag": "a/b", "data": Ready(value), "at": 1.0}
        await store.write(lambda conn: conn.execute(sa.insert(tables.EVENTS).values(row)))
        query = sa.select(tables.EVENTS.c.data)
        with pytest.raises(StoreCorruptError, match="store restore"):
            await getattr(store, way)(lambda conn: conn.execute(query).all())
        await until(lambda: bool(found))
        assert "no MessagePack" in store.damage and found == [store.damage]
        with pytest.raises(StoreCorruptError, match="new jobs are refused") as refused:
            store.refuse_when_damaged()
        assert str(refused.value).count("store restore BACKUP") == 1

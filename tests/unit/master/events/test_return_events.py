"""Events of returns: their data is stored once, and outlives the return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from catena.core.clock import SystemClock
from catena.core.config.master import MasterSettings
from catena.core.events import Event
from catena.core.ids import JidFactory
from catena.core.job import FunctionCall, JobReturn, JobSpec
from catena.master.contributions import retention as retentions
from catena.master.events import return_rows
from catena.master.events.bus import EventBus
from catena.master.events.feed import JobFeed
from catena.master.events.return_events import EVENT_VALUE_LIMIT
from catena.master.jobs import retention as job_retention
from catena.master.jobs import rows
from catena.master.jobs.delivery import Delivery
from catena.master.jobs.model import JobRequest
from catena.master.jobs.returns import ReturnParts, Returns
from catena.master.jobs.sender import DeliveryLedger
from catena.master.minions.sessions import Sessions
from catena.master.process import retention
from catena.master.store.database import Store
from catena.master.store.metadata import Ready
from catena.master.store.tables import CURSORS, EVENTS, RETURNS
from catena.transport.messages import Envelope
from catena.transport.peers import Peer

JID = "20260101000000000001"
HOUR = 3600.0
PEER = Peer("control", b"r", "user", "127.0.0.1", "key")


def a_return(value: Any, **more: Any) -> JobReturn:
    given: dict[str, Any] = {"success": True, "retcode": 0, "started": 1.0}
    return JobReturn(JID, "cmd.run", ("true",), value=value, duration_seconds=1.5, **given | more)


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'master.db'}"


@contextmanager
def migrating(folder: Path) -> Iterator[tuple[sa.Connection, Config]]:
    """Open a store for Alembic; yield its connection and configuration."""
    config = Config()
    config.set_main_option("script_location", "catena.master.store:migrations")
    config.set_main_option("path_separator", "os")
    engine = sa.create_engine(url(folder))
    with engine.connect() as conn:
        config.attributes["connection"] = conn
        yield conn, config
    engine.dispose()


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Store]:
    store = Store(url(folder))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def returned(store: Store, returns: dict[str, JobReturn]) -> EventBus:
    """Store a job and its returns; return the bus with their events."""
    clock = SystemClock()
    bus = EventBus(store, clock)
    await bus.open()
    spec = JobSpec(JID, "cmd.run", ("true",), issued=1.0)
    new = rows.NewJob(
        spec, JobRequest("root", FunctionCall("cmd.run")), dict.fromkeys(returns, Delivery.sent)
    )
    await store.write(lambda conn: rows.insert(conn, new))
    feed = JobFeed()
    nobody: Any = SimpleNamespace(send=lambda *_: True)
    deliveries = DeliveryLedger(bus, feed, Sessions(), clock)
    service = Returns(
        ReturnParts(store, bus, feed, deliveries, nobody, nobody, clock, JidFactory(clock.now))
    )
    envelope = Envelope(b"i" * 16, b"", None)
    waiting = [
        service.returned(PEER, minion, ret, envelope, Ready.of(ret).packed)
        for minion, ret in returns.items()
    ]
    await asyncio.gather(*waiting)
    return bus


async def stored_events(bus: EventBus) -> Sequence[Event]:
    stretch = await anext(bus.follow(("salt/job/*",), 0))
    return stretch.events


async def read_again(store: Store) -> Sequence[Event]:
    later = EventBus(store, SystemClock())  # As after a restart, without events in memory.
    await later.open()
    return await stored_events(later)


async def age(store: Store, **hours: float) -> None:
    """Prune by the retention settings *hours*, with a clock an hour and a second ahead."""
    settings = replace(MasterSettings(), **cast("Any", hours))
    now = SystemClock().now().timestamp() + HOUR + 1
    await retention.prune(store, retentions(), retention.limits(retentions(), settings, now))


@pytest.mark.parametrize("many", [1, 3])
async def test_event_from_memory_equals_the_event_from_the_stored_return(
    tmp_path: Path, many: int
) -> None:
    value = {"stdout": "x", "raw": b"\xff\x00", "n": [1, None, 2.5], 7: "seven"}
    returns = {f"web{n}": a_return(value, out="nested" if n else "") for n in range(many)}

    async with opened(tmp_path) as store:
        at_once = await stored_events(await returned(store, returns))
        assert [event.data["return"] for event in at_once] == [value] * many
        assert await read_again(store) == at_once
        bus = EventBus(store, SystemClock())
        assert await bus.events_at([event.seq for event in at_once]) == at_once
        bare = sa.select(sa.func.count()).where(EVENTS.c.data == Ready(b""))
        assert await store.read(lambda conn: conn.execute(bare).scalar()) == many


async def test_fields_left_out_of_an_event_are_left_out_when_it_is_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        large = a_return("x" * (EVENT_VALUE_LIMIT + 1))
        (at_once,) = await stored_events(await returned(store, {"web": large}))
        assert at_once.data["return"] is None
        assert at_once.data["return_bytes"] > EVENT_VALUE_LIMIT
        assert await read_again(store) == [at_once]


async def test_event_that_outlives_its_job_keeps_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(return_rows, "COPIED_AT_ONCE", 2)

    async with opened(tmp_path) as store:
        returns = {f"web{n}": a_return(n) for n in range(5)}
        at_once = await stored_events(await returned(store, returns))
        await age(store, keep_jobs_hours=1, keep_events_hours=24)
        left = sa.select(sa.func.count()).select_from(RETURNS)
        assert await store.read(lambda conn: conn.execute(left).scalar()) == 0
        assert await read_again(store) == at_once


async def test_events_go_with_their_returns_but_not_before_every_consumer_has_seen_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Delete the returns of one job in several transactions.
    monkeypatch.setattr(job_retention, "RETURNS_BATCH", 2)

    async with opened(tmp_path) as store:
        returns = {f"web{n}": a_return(n) for n in range(5)}
        at_once = await stored_events(await returned(store, returns))
        seen = {"consumer": "reactor", "seq": at_once[2].seq}
        await store.write(lambda conn: conn.execute(sa.insert(CURSORS).values(seen)) and None)
        await age(store, keep_jobs_hours=1, keep_events_hours=1)
        assert await read_again(store) == at_once[3:]
        rest = sa.select(sa.func.count()).select_from(RETURNS)
        assert await store.read(lambda conn: conn.execute(rest).scalar()) == 0


async def test_event_of_a_manually_deleted_return_still_names_its_minion(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await returned(store, {"web": a_return(True)})
        await store.write(lambda conn: conn.execute(sa.delete(RETURNS)) and None)
        (event,) = await read_again(store)
        assert event.data == {"cmd": "_return", "id": "web", "jid": JID, "return": None}


async def test_events_stored_by_the_previous_schema_are_read_from_their_own_rows(
    tmp_path: Path,
) -> None:
    data = {"id": "web", "return": "as ever"}
    old = {"tag": f"salt/job/{JID}/ret/web", "data": data, "at": 1.0}
    with migrating(tmp_path) as (conn, config):
        command.upgrade(config, "0004")
        conn.execute(sa.insert(EVENTS).values(old))
        conn.commit()

    async with opened(tmp_path) as store:
        (event,) = await read_again(store)
        assert event.data == data
        await returned(store, {"new": a_return("new")})
        assert [event.data["return"] for event in await read_again(store)] == ["as ever", "new"]


async def test_events_can_be_read_after_a_schema_downgrade(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await returned(store, {"web": a_return(True)})
    with migrating(tmp_path) as (conn, config):
        # Later migrations cannot be undone; none of them changed what 0005 did.
        command.stamp(config, "0005")
        command.downgrade(config, "0004")
        (data,) = conn.execute(sa.select(EVENTS.c.data)).scalars()
    assert data == {}

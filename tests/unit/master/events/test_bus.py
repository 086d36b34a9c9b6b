"""The callback of the bus for events that are being stored."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from catena.core.clock import SystemClock
from catena.core.errors import UsageError
from catena.core.events import Event
from catena.master.events.bus import EventBus
from catena.master.events.findings import unreadable
from catena.master.store.database import Store

Expected = list[tuple[Event, "asyncio.Future[Event]"]]


@asynccontextmanager
async def a_bus(path: Path) -> AsyncIterator[tuple[EventBus, Expected]]:
    store = Store(f"sqlite:///{path / 'master.db'}")
    await store.open()
    try:
        bus = EventBus(store, SystemClock())
        await bus.open()
        calls: Expected = []
        bus.on_expected(lambda event, stored: calls.append((event, stored)))
        yield bus, calls
    finally:
        await store.close()


async def test_expected_event_equals_the_stored_event(tmp_path: Path) -> None:
    async with a_bus(tmp_path) as (bus, calls):
        stored = await bus.fire("shop/deploy", {"version": 7}, "web1")
        ((expected, future),) = calls
        assert future.result() == stored
        assert expected.seq == 0 < stored.seq
        assert (expected.tag, expected.data, expected.stamp, expected.source) == (
            "shop/deploy", {"version": 7}, stored.stamp, "web1",
        )  # fmt: skip


async def test_invalid_event_is_never_expected(tmp_path: Path) -> None:
    async with a_bus(tmp_path) as (bus, calls):
        with pytest.raises(UsageError, match="can't be an event's tag"):
            await bus.fire("", {})
        assert calls == []


@pytest.mark.parametrize(
    ("damage", "tag"),
    [
        ("data = x'c1'", "a/tag"),
        ("data = x'07'", "a/tag"),
        ("at = 1e300", "a/tag"),
        ("at = 'x'", "a/tag"),
        ("source = CAST(x'ff' AS TEXT)", "a/tag"),
        ("tag = CAST(x'612fff' AS TEXT)", "a/\\xff"),
        ("tag = x'612f6c'", "a/l"),
    ],
)
async def test_damaged_row_is_reported_and_the_other_events_are_delivered(
    tmp_path: Path, damage: str, tag: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_bus(tmp_path) as (bus, _):
        seqs = [(await bus.fire("a/tag", {"n": n})).seq for n in range(5)]
    with sqlite3.connect(tmp_path / "master.db") as conn:
        conn.execute(f"UPDATE event SET {damage} WHERE seq = ?", (seqs[2],))
    conn.close()
    async with a_bus(tmp_path) as (bus, _):
        follow = bus.follow(["a/*"], seqs[0] - 1)
        stretch = await anext(follow)
        assert [event.seq for event in stretch.events] == [*seqs[:2], *seqs[3:]]
        assert stretch.upto == seqs[-1]
        assert [event.seq for event in await bus.events_at(seqs)] == [*seqs[:2], *seqs[3:]]
        (report,) = (await anext(bus.follow(["catena/event/unreadable"], seqs[-1]))).events
        assert (report.data["seq"], report.data["tag"]) == (seqs[2], tag)
        (found,) = await bus._store.read(lambda conn: list(unreadable(conn, time.time())))
        assert f"event {seqs[2]} ({tag}) can't be read" in found.what
    assert caplog.text.count("nothing reacts to it") == 1

"""The callback of the bus for events that are being stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from catena.core.clock import SystemClock
from catena.core.errors import UsageError
from catena.core.events import Event
from catena.master.events.bus import EventBus
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

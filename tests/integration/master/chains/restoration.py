"""Restores the store of a bench from a backup."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from catena.master.store import backup, restored
from catena.master.store.database import Store
from tests.integration.master.chains.bench import START as NOW
from tests.integration.master.chains.bench import Bench, a_bench
from tests.support.databases import ON_POSTGRES

Scenario = Callable[[Bench], Awaitable[None]]


async def back_in_time(
    folder: Path,
    before: Scenario,
    after: Scenario,
    minions: tuple[str, ...] = ("web1",),
) -> list[str]:
    """Restore what *before* left, five minutes later, and go on; return what restore tells."""
    if ON_POSTGRES:
        pytest.skip("catena restores a file of SQLite alone")
    database, copy = folder / "master.db", folder / "copy.db"

    async with a_bench(folder, minions) as bench:
        await before(bench)
        await asyncio.to_thread(backup.back_up, database, copy)
    at = NOW.timestamp() + 300
    backup.restore(database, copy, folder / "aside.db", at)
    told = restored.touched(database, at)

    store = Store(f"sqlite:///{database}")
    await store.open()
    try:
        bench = Bench(folder, store, minions)
        bench.clock.advance(310)
        await bench.bus.open()
        await bench.restart()
        await after(bench)
    finally:
        await store.close()
    return told

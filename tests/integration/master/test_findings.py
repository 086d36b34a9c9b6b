"""`catena doctor` on the master reports damaged files of minions."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import sqlalchemy as sa

from catena.core.checkup import Level
from catena.master.contributions import checks
from catena.master.process import checkup
from catena.master.store.tables import EVENTS
from catena.transport.messages import EventFired
from tests.integration.master.bench import Bench, a_master


async def findings(master: Bench, part: str) -> list[tuple[Level, str]]:
    await master.settle()
    found = await asyncio.to_thread(lambda: list(checkup.check(master.settings, checks())))
    return [(one.level, one.what) for one in found if one.part == part]


async def grown_old(master: Bench, table: sa.Table, column: str, age: float) -> None:
    values: dict[str, Any] = {column: time.time() - age}
    await master.store.write(lambda conn: conn.execute(sa.update(table).values(values)))


async def test_damaged_file_of_a_minion_is_a_finding_for_a_week() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        data = {"path": "/var/cache/x/jobs.log", "lost": "two lines"}
        await web1.say(EventFired("damage-1", "minion/web1/event/damaged", data))
        await grown_old(master, EVENTS, "at", 3600.0)
        ((level, what),) = await findings(master, "damage")
        assert level is Level.warning
        assert what == "web1: /var/cache/x/jobs.log was damaged; lost: two lines"
        await grown_old(master, EVENTS, "at", 8 * 24 * 3600.0)
        assert await findings(master, "damage") == []

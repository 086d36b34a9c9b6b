"""`catena doctor` reports growth of the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.core.ids import jid_at
from catena.master.store import growth
from catena.master.store.database import Store
from catena.master.store.tables import EVENTS
from tests.unit.master.store.job_rows import job

NOW = 1_800_000_000.0


async def found(folder: Path, fill: Callable[[sa.Connection], None]) -> list[str]:
    store = Store(f"sqlite:///{folder / 'master.db'}")
    await store.open()
    await store.write(fill)
    texts = await store.read(lambda conn: [f.what for f in growth.findings(conn, NOW)])
    await store.close()
    return texts


async def test_growing_store_is_a_finding_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "MANY_JOBS", 10)
    monkeypatch.setattr(growth, "MANY_EVENTS", 30)

    def fill(conn: sa.Connection) -> None:
        for number in range(12):
            job(jid_at(datetime.fromtimestamp(NOW - 60 - number, UTC)), NOW)(conn)
        rows = [
            {"tag": "app/x", "data": {"text": "x" * 120_000}, "at": NOW - 5, "source": "web1"}
        ] * 31
        conn.execute(sa.insert(EVENTS), rows)

    assert await found(tmp_path, fill) == [
        "the store grows: 12 jobs test.ping since 07:00 UTC",
        "the store grows: 31 events, most of them from web1, since 07:00 UTC, about 3 MB",
    ]


async def test_many_old_jobs_are_not_a_growth_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "MANY_JOBS", 10)

    def fill(conn: sa.Connection) -> None:
        for number in range(12):
            job(jid_at(datetime.fromtimestamp(NOW - 7200 - number, UTC)), NOW)(conn)

    assert await found(tmp_path, fill) == []

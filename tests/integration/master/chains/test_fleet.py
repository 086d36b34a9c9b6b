from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.master.chains import batches
from catena.master.store.chain_tables import CHUNKS
from tests.integration.master.chains.bench import a_bench
from tests.integration.master.chains.steps import CMD, START

FLEET = tuple(f"web{number}" for number in range(1, 6))


@pytest.fixture(autouse=True)
def _few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_MINIONS", 2)


async def test_every_minion_of_a_fleet_finds_the_file_that_its_job_names(tmp_path: Path) -> None:
    async with a_bench(tmp_path, FLEET) as bench:
        await bench.begin("patch", CMD, CMD)
        assert len(await bench.job_ids(START)) == 1
        query = sa.select(CHUNKS.c.minion, CHUNKS.c.file, CHUNKS.c.sha256)
        rows = await bench.store.read(lambda conn: conn.execute(query).all())
        assert sorted(row.minion for row in rows) == list(FLEET)
        for row in rows:
            path = bench.files.overlay(row.minion)[f"actionchains/{row.file}"]
            assert sha256(path.read_bytes()).hexdigest() == row.sha256
            assert await bench.states("patch", row.minion) == ["NEW", "NEW"]


async def test_chain_waits_when_not_all_of_its_files_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_bench(tmp_path, FLEET) as bench:
        write, asked = bench.files.write_chunks, []

        def full(texts: Mapping[str, str]) -> None:
            asked.append(texts)
            if len(asked) == 2:
                raise OSError(28, "No space left on device")
            write(texts)

        monkeypatch.setattr(bench.files, "write_chunks", full)
        await bench.begin("patch", CMD)
        assert (await bench.show("patch"))["state"] == "scheduled"
        assert await bench.job_ids(START) == []
        await bench.chains.scheduler.tick()
        assert (await bench.show("patch"))["state"] == "dispatched"
        assert len(await bench.job_ids(START)) == 1

"""Chunks rendered in worker processes have the same bytes, also after a worker has died."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.config.master import MasterSettings
from catena.core.records import encode
from catena.master.chains import rendering
from catena.master.chains.engine import Chains
from catena.master.chains.rendering import ATTEMPTS, ChunkRenderer
from catena.master.workers.pool import WorkerDiedError, Workers
from tests.integration.master.chains.bench import Bench, a_bench
from tests.support.waiting import until

CMD = ("cmd", {"cmd": "true"})
REBOOT: tuple[str, dict[str, Any]] = ("reboot", {})
HOSTS = ("web1", "web2", "web3")


@pytest.fixture(autouse=True)
def every_chain_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "FEW_ACTIONS", 0)


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[Workers]:
    settings = encode(MasterSettings(cache_dir=str(tmp_path / "cache")))
    pool = Workers(settings, 1, 30.0, engine_tasks=Chains.worker_tasks)
    yield pool
    await pool.stop()


def chunks(bench: Bench) -> dict[str, str]:
    folder = bench.folder / "chains" / "actionchains"
    return {path.name: path.read_text() for path in folder.glob("*.sls")}


async def test_workers_and_threads_render_the_same_files(tmp_path: Path, workers: Workers) -> None:
    found = []
    for name, renderer in (("apart", ChunkRenderer(workers)), ("inside", ChunkRenderer())):
        (tmp_path / name).mkdir()
        async with a_bench(tmp_path / name, HOSTS, renderer=renderer) as bench:
            await bench.begin("patch", CMD, REBOOT, CMD)
            assert (await bench.show("patch"))["state"] == "dispatched"
            found.append(chunks(bench))
    assert len(found[0]) == 2 * len(HOSTS)
    assert found[0] == found[1]
    assert workers._all, "no worker process was started"


async def test_chain_is_dispatched_when_a_worker_is_killed_while_rendering(
    tmp_path: Path, workers: Workers
) -> None:
    async with a_bench(tmp_path, HOSTS, renderer=ChunkRenderer(workers)) as bench:
        await bench.begin("first", CMD)
        (stopped,) = workers._idle
        os.kill(stopped.process.pid, signal.SIGSTOP)
        beginning = asyncio.create_task(bench.begin("patch", CMD, REBOOT, CMD))
        await until(lambda: not workers._idle or beginning.done())
        os.kill(stopped.process.pid, signal.SIGKILL)
        await beginning
        assert (await bench.show("patch"))["state"] == "dispatched"
        assert len(chunks(bench)) == 3 * len(HOSTS)
    # asyncio reports another number if the pool ended the dead process before it was waited for.
    assert stopped.process.returncode is not None


class DyingWorkers:
    """Their processes die over every task, until they are mended."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.mended = False
        self.deaths = 0

    async def call(self, task: str, params: dict[str, Any], line: str = "") -> Any:
        if self.mended:
            return await self._workers.call(task, params, line)
        self.deaths += 1
        raise WorkerDiedError(f"{task} took longer than 60 s")


async def test_chain_waits_with_a_reason_while_its_rendering_kills_workers(
    tmp_path: Path, workers: Workers
) -> None:
    dying = DyingWorkers(workers)
    async with a_bench(tmp_path, HOSTS, renderer=ChunkRenderer(dying)) as bench:
        await bench.begin("patch", CMD)
        view = await bench.show("patch")
        assert view["state"] == "scheduled"
        assert dying.deaths == ATTEMPTS
        assert not chunks(bench)
        action = view["minions"][0]["actions"][0]
        assert "can't start, the master retries" in action["waits"]
        assert "chunks took longer than 60 s" in action["waits"]
        dying.mended = True
        await bench.chains.scheduler.tick()
        view = await bench.show("patch")
        assert view["state"] == "dispatched"
        assert "tried again" not in str(view)
        assert len(chunks(bench)) == len(HOSTS)


async def test_reason_for_a_delay_is_removed_once_the_chain_is_not_due(
    tmp_path: Path, workers: Workers
) -> None:
    dying = DyingWorkers(workers)
    async with a_bench(tmp_path, HOSTS, renderer=ChunkRenderer(dying)) as bench:
        await bench.begin("patch", CMD)
        assert bench.parts.delays
        dying.mended = True
        await bench.chains.scheduler.tick()
        await bench.chains.scheduler.tick()
        assert not bench.parts.delays

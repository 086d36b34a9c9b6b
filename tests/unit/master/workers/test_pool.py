from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from catena.core.clock import SystemClock
from catena.core.config.master import MasterSettings
from catena.core.records import encode
from catena.master.gate.pillars import PillarService
from catena.master.minions.facts import Facts
from catena.master.workers.pool import TaskFailedError, WorkerDiedError, Workers
from catena.transport.messages import PillarRequest
from tests.support.waiting import until


async def only_its_id(minion: str) -> dict[str, str]:
    return {"id": minion}


Task = Callable[[Workers], Awaitable[Any]]


def settings(folder: Path) -> dict[str, Any]:
    record = MasterSettings(
        file_roots={"base": [str(folder / "states")]},
        pillar_roots={"base": [str(folder / "pillar")]},
        cache_dir=str(folder / "cache"),
    )
    found: dict[str, Any] = encode(record)
    return found


def tree(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@asynccontextmanager
async def a_pool(
    folder: Path, timeout: float = 30.0, count: int = 1, rest: float = 60.0
) -> AsyncIterator[Workers]:
    workers = Workers(settings(folder), count, timeout, rest)
    try:
        yield workers
    finally:
        await workers.stop()


async def test_pillar_is_compiled_for_the_minion_that_asks(tmp_path: Path) -> None:
    tree(tmp_path, {
        "pillar/top.sls": "base:\n  'web*':\n  - web\n",
        "pillar/web.sls": "name: {{ grains['id'] }}\nport: 80\n",
    })  # fmt: skip

    async with a_pool(tmp_path) as workers:
        service = PillarService(workers, only_its_id, SystemClock(), Facts())
        request = PillarRequest(override={"port": 81})
        web, db = [await service.compile(name, request) for name in ("web1", "db1")]
    assert web.pillar == {"name": "web1", "port": 81}
    assert not web.errors
    assert db.pillar == {"port": 81}


async def test_broken_pillar_names_file_and_line_and_shows_no_text(tmp_path: Path) -> None:
    tree(tmp_path, {
        "pillar/top.sls": "base:\n  '*':\n  - secret\n",
        "pillar/secret.sls": "password: hunter2\nother: {{ nowhere }}\n",
    })  # fmt: skip

    async with a_pool(tmp_path) as workers:
        reply = await PillarService(workers, only_its_id, SystemClock(), Facts()).compile(
            "web1", PillarRequest()
        )
    assert "secret.sls" in reply.errors[0]
    assert "2" in reply.errors[0]
    assert "hunter2" not in "".join(reply.errors)


async def test_endless_template_ends_only_its_own_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {
        "endless.sls": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
                       "{% endfor %}",
        "fine.sls": "x:\n  runner.jobs.active: []\n",
    })  # fmt: skip

    async with a_pool(tmp_path) as workers:
        params = {"file": str(tmp_path / "fine.sls"), "tag": "t", "data": {}}
        await workers.call("reactions", params)
        # The child is there: what is left to take long is the template.
        with monkeypatch.context() as patched, pytest.raises(WorkerDiedError, match="longer"):
            patched.setattr(workers, "_timeout", 1.0)
            await workers.call("reactions", {**params, "file": str(tmp_path / "endless.sls")})
        found = await workers.call("reactions", params)
    assert found[0]["fun"] == "jobs.active"


async def test_reactor_file_sees_tag_and_data(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {"r.sls": "go:\n  local.test.arg:\n  - tgt: {{ data['id'] }}\n  - arg: ['{{ tag }}']\n"},
    )

    async with a_pool(tmp_path) as workers:
        params = {"file": str(tmp_path / "r.sls"), "tag": "a/b", "data": {"id": "web1"}}
        (found,) = await workers.call("reactions", params)
    assert (found["tgt"], found["args"]) == ("web1", ["a/b"])


async def test_missing_or_broken_reactor_file_is_refused_by_name(tmp_path: Path) -> None:
    tree(tmp_path, {"bad.sls": "x:\n  y: {{ oops }}\n"})

    async with a_pool(tmp_path) as workers:
        texts = []
        for name in ("none.sls", "bad.sls"):
            with pytest.raises(TaskFailedError) as caught:
                params = {"file": str(tmp_path / name), "tag": "t", "data": {}}
                await workers.call("reactions", params)
            texts.append(str(caught.value))
        missing, broken = texts
    assert "none.sls" in missing
    assert "bad.sls" in broken
    assert "oops" in broken


async def test_child_that_dies_fails_its_task_and_is_replaced(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as workers:
        child = await workers._start()
        workers._idle.append(child)
        child.process.kill()
        await child.process.wait()
        with pytest.raises(WorkerDiedError):
            await workers.call("call", {"fun": "test.ping", "args": [], "kwargs": {}})
        found = await workers.call("call", {"fun": "test.ping", "args": [], "kwargs": {}})
    assert found is True


async def test_process_that_dies_at_its_start_is_reaped_and_the_next_task_gets_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {"pillar/top.sls": "{}\n"})
    params = {"minion": "web1", "grains": {}}

    async with a_pool(tmp_path) as workers:

        async def gone(child: Any, data: Any) -> None:
            raise BrokenPipeError

        with monkeypatch.context() as patch:
            patch.setattr("catena.master.workers.pool._send", gone)
            with pytest.raises(WorkerDiedError):
                await workers.call("pillar", params)
        assert not workers._all
        found = await workers.call("pillar", params)
    assert found["pillar"] == {}


async def test_idle_worker_ends_and_the_next_task_gets_a_new_one(
    tmp_path: Path,
) -> None:
    ping = {"fun": "test.ping", "args": [], "kwargs": {}}

    async with a_pool(tmp_path, rest=0.0) as workers:
        await workers.call("call", ping)
        (first,) = workers._all
        await first.wait()
        await until(lambda: not workers._all)
        found = await workers.call("call", ping)
    assert found is True

"""The Python API as docs/howto/ask-from-python.md shows it, against a master."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import re
from pathlib import Path

import pytest

from catena.client import connect, connect_async, socket_path
from catena.client.replies.jobs import JobNewItem
from catena.client.requests import events, jobs, keys
from catena.core.errors import NotFoundError, UnreachableError
from catena.transport.messages import JobOrder
from tests.integration.master.bench import Bench, Script, a_master
from tests.support.waiting import PATIENCE_SECONDS

PAGE = Path(__file__).parents[3] / "docs/howto/ask-from-python.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
#: A word from the master that nothing follows in these tests is waited for no longer than this.


def socket_of(master: Bench) -> Path:
    return Path(master.settings.run_dir) / "master.sock"


async def answer_all(script: Script) -> None:
    """Answer every order of a minion until the test is over."""
    for answered in itertools.count():
        await script.receives(JobOrder, answered + 1)
        await script.answer(script.orders()[answered].jid)


def printed(code: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})
    return output.getvalue()


async def test_examples_of_the_documentation_print_what_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    examples = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(examples) == PAGE.read_text(encoding="utf-8").count("```python")
    async with a_master() as master:
        monkeypatch.setattr(socket_path, "master_socket", lambda folder: socket_of(master))
        (web1,) = await master.connect("web1")
        answering = asyncio.create_task(answer_all(web1))
        for code, text in examples:
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await asyncio.to_thread(printed, code) == text
        answering.cancel()


async def test_closing_a_followed_stream_leaves_the_client_usable() -> None:
    async with a_master() as master:
        await master.connect("web1")

        def use() -> str:
            with connect(socket_of(master), timeout=PATIENCE_SECONDS) as client:
                run = jobs.RunJob("web1", "test.ping", follow=True)
                items = client.follow(jobs.RUN, run, PATIENCE_SECONDS)
                first = next(items)
                items.close()
                assert isinstance(first, JobNewItem)
                return client.ask(jobs.SHOW, jobs.JobShow(first.jid)).fun

        assert await asyncio.to_thread(use) == "test.ping"


async def test_generator_returns_the_reply_that_ends_the_stream() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        answering = asyncio.create_task(answer_all(web1))

        def use() -> object:
            client = connect(socket_of(master), timeout=PATIENCE_SECONDS)
            run = jobs.RunJob("web1", "test.ping", follow=True)
            items = client.follow(jobs.RUN, run, PATIENCE_SECONDS)
            while True:
                try:
                    next(items)
                except StopIteration as end:
                    return end.value.states

        assert await asyncio.to_thread(use) == {"web1": "done"}
        answering.cancel()


async def test_async_client_is_shared_by_many_tasks() -> None:
    async with a_master() as master, connect_async(socket_of(master)) as client:
        asked = [client.ask(events.SEND, events.EventSend(f"app/{n}", {})) for n in range(8)]
        sent = await asyncio.gather(*asked)
        assert len({one.seq for one in sent}) == 8
        assert {e.tag for e in await master.events("app/*")} == {f"app/{n}" for n in range(8)}


async def test_async_stream_left_early_ends_at_the_master() -> None:
    async with a_master() as master, connect_async(socket_of(master)) as client:
        await client.ask(events.SEND, events.EventSend("app/x", {}))
        items = client.follow(events.WATCH, events.EventWatch("app/*", 0), PATIENCE_SECONDS)
        assert (await anext(items)).tag == "app/x"
        await items.aclose()
        serving = [task for task in asyncio.all_tasks() if "_handle" in repr(task.get_coro())]
        _, running = await asyncio.wait(serving, timeout=PATIENCE_SECONDS)
        assert not running


async def test_async_client_raises_the_error_class_named_by_the_master() -> None:
    async with a_master() as master, connect_async(socket_of(master)) as client:
        with pytest.raises(NotFoundError):
            await client.ask(jobs.SHOW, jobs.JobShow("20260101000000000001"))
        with pytest.raises(NotFoundError):
            watch = jobs.JobWatch("20260101000000000001")
            async for _ in client.follow(jobs.WATCH, watch, PATIENCE_SECONDS):
                raise AssertionError("an item of a job that is not there")
        with pytest.raises(UnreachableError, match="no answer in time"):
            async for _ in client.follow(events.WATCH, events.EventWatch(), 0.05):
                raise AssertionError("an event that nobody sent")


async def test_async_client_reports_a_missing_master(tmp_path: Path) -> None:
    async with connect_async(tmp_path / "none") as client:
        with pytest.raises(UnreachableError):
            await client.ask(keys.LIST)
        with pytest.raises(UnreachableError, match="no process serves"):
            async for _ in client.follow(events.WATCH):
                raise AssertionError("an event without a master")

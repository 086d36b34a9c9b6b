"""Failed reactions in a real store: written, listed, and retried by the next reactor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catena.client.requests import runners
from catena.client.requests.runners import RunnerCall
from catena.core.errors import NotFoundError, UsageError
from catena.core.events import Event
from catena.master.contributions import checks
from catena.master.events.failed_reactions import FailedReactionStore
from catena.master.process import checkup
from catena.master.store.metadata import Ready
from catena.master.store.tables import REACTIONS
from catena.reactors import retries
from catena.reactors.reaction import Reaction, ReactionKind
from catena.reactors.retries import Failed
from catena.transport.messages import JobOrder
from tests.integration.master.bench import Bench, a_master

DATA: dict[Any, Any] = {"id": "web1", "raw": b"\xff\0", 7: [None, 1.5]}
REACTION = Reaction("x", ReactionKind.local, "test.ping", "web1", "list", rank=float("-inf"))


def a_failed(seq: int, file: str = "f.sls", reaction: Reaction | None = REACTION) -> Failed:
    event = Event(seq, "app/go", DATA, "2026-03-01T12:00:00+00:00", "web1")
    return Failed(event, file, reaction, "line 3:\nno", 5.0, due=1e12)


async def runner(master: Bench, fun: str, *args: Any) -> Any:
    asked = RunnerCall(f"reactor.{fun}", args, {})
    return await master.reactor_front_end.ask(runners.CALL, asked)


async def test_failed_reaction_is_restored_unchanged_from_the_store() -> None:
    async with a_master() as master:
        kept = FailedReactionStore(master.store)
        first = await kept.keep(a_failed(1))
        second = await kept.keep(a_failed(2, "ä" * 5000, None))
        again = await kept.keep(replace(first, id=0, attempts=4, error="worse"))
        assert (again.id, again.size) == (first.id, first.size)
        assert len(DATA["raw"]) < first.size < 1000
        assert await kept.load() == [again, second]
        await kept.drop(first.id)
        await kept.drop(first.id)
        assert await kept.load() == [second]


async def test_reaction_removed_during_the_load_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_master() as master:
        kept = FailedReactionStore(master.store)
        first, second = [await kept.keep(a_failed(number)) for number in (1, 2)]
        read = master.store.read

        async def read_then_drop(work: Callable[[sa.Connection], Any]) -> Any:
            found = await read(work)
            await kept.drop(first.id)
            return found

        monkeypatch.setattr(master.store, "read", read_then_drop)
        assert await kept.load() == [second]


@pytest.mark.parametrize("damage", [b"\xc1", b"\x80", b"\x01", b""])
async def test_damaged_row_does_not_affect_other_reactions(
    damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_master() as master:
        kept = FailedReactionStore(master.store)
        first, second = await kept.keep(a_failed(1)), await kept.keep(a_failed(2))
        change = sa.update(REACTIONS).where(REACTIONS.c.id == first.id)
        change = change.values(event=Ready(damage))
        await master.store.write(lambda conn: conn.execute(change))
        assert await kept.load() == [second]
    assert "failed reaction 1 can't be read" in caplog.text


async def test_failed_reactions_are_listed_and_reported_by_doctor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # None is tried again within the test.
    monkeypatch.setattr(retries, "FIRST_SECONDS", 600.0)
    async with a_master() as master:
        await master.settle()
        for number in (1, 2):
            await master.reactor.retries.add(a_failed(number))
        listed = await runner(master, "waiting")
        assert [(row["id"], row["tag"], row["entry"]) for row in listed] == [
            (1, "app/go", "x"),
            (2, "app/go", "x"),
        ]
        assert (await runner(master, "status"))["waiting"] == 2
        found = await asyncio.to_thread(lambda: list(checkup.check(master.settings, checks())))
        (finding,) = [one for one in found if one.part == "reactions"]
        assert (
            "f.sls: 2 failed reactions are retried" in finding.what and "line 3:" in finding.what
        )
        assert (await runner(master, "discard", 1))["id"] == 1
        with pytest.raises(NotFoundError, match="no reaction 1"):
            await runner(master, "discard", 1)
        for odd in (-1, "x", True, 2**70):
            with pytest.raises((UsageError, NotFoundError)):
                await runner(master, "discard", odd)


async def test_reaction_is_retried_after_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(retries, "FIRST_SECONDS", 0.0)
    file = tmp_path / "go.sls"
    file.write_text("x:\n  local.test.ping:\n  - tgt: web1\n")

    async with a_master(reactor=[{"app/*": [str(file)]}]) as master:
        (web1,) = await master.connect("web1")
        make, faults = master.jobs.new_jid, [ValueError("year 10126 is out of range")] * 3

        def faulty() -> Any:
            if faults:
                raise faults.pop()
            return make()

        monkeypatch.setattr(master.jobs, "new_jid", faulty)
        await master.bus.fire("app/go", {})
        await web1.receives(JobOrder)
        assert [spec.fun for spec in web1.orders()] == ["test.ping"]
        # The row is dropped a moment after the reaction has left the list of waiting ones.
        left = sa.select(REACTIONS.c.id)

        async def dropped() -> bool:
            return await master.store.read(lambda conn: conn.execute(left).first()) is None

        await master.until(dropped)
        assert master.reactor.retries.waiting() == []

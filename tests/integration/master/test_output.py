"""Output of running jobs: stored chunks, limits and live items."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from catena.client.replies.jobs import JobEnd, JobOutputItem, JobReturnItem
from catena.master.jobs import output_rows
from catena.master.jobs.output import BURST_BYTES
from catena.master.jobs.output_rows import CHUNK_COST, OutputChunk, OutputEnd
from catena.transport.messages import Failure, JobOutput, OutputStored, Welcome
from catena.transport.messages.session import JOB_OUTPUT
from tests.integration.master.bench import a_master


def output(jid: str, at: int, text: str, **more: Any) -> JobOutput:
    words = {"attempt": 0, "size": len(text), "stream": "stdout", **more}
    return JobOutput(jid=jid, at=at, text=text, **words)


async def test_chunks_are_stored_once_confirmed_and_shown_to_a_watcher() -> None:
    async with a_master() as bench:
        (minion,) = await bench.connect("m1")
        done = await bench.submit("m1", fun="cmd.run")
        await minion.receive(done.jid)
        await minion.say(output(done.jid, 0, "one\n"))
        await minion.say(output(done.jid, 10, "three\n"))
        await minion.reconnect(done.jid)
        await minion.say(output(done.jid, 10, "three\n"))
        assert [stored.upto for stored in minion.got(OutputStored)] == [4, 16, 16]
        items = bench.views.follow(done.jid)
        seen = [await anext(items) for _ in range(3)]
        found = [(item.text, item.missed) for item in seen if isinstance(item, JobOutputItem)]
        assert found == [("one\n", 0), ("three\n", 6)]
        await minion.say(output(done.jid, 16, "four\n"))
        item = await anext(items)
        while not isinstance(item, JobOutputItem):
            item = await anext(items)
        assert item.text == "four\n" and item.seq == 3
        await minion.answer(done.jid)
        assert isinstance([item async for item in items][-1], JobEnd)


async def test_output_for_an_ended_job_or_another_minion_is_not_stored() -> None:
    async with a_master() as bench:
        one, two = await bench.connect("m1", "m2")
        done = await bench.submit("m1", fun="cmd.run")
        await one.receive(done.jid)
        await two.say(output(done.jid, 0, "forged"))
        await one.answer(done.jid)
        await one.say(output(done.jid, 0, "late"))
        assert len(one.got(OutputStored)) == len(two.got(OutputStored)) == 1
        kinds = [type(item) async for item in bench.views.follow(done.jid)]
        assert JobOutputItem not in kinds and JobReturnItem in kinds


async def test_output_above_the_limit_is_marked_and_invalid_chunks_are_refused() -> None:
    async with a_master(job_output_kib=1) as bench:
        (minion,) = await bench.connect("m1")
        done = await bench.submit("m1", fun="cmd.run")
        await minion.receive(done.jid)
        for at in (0, 600, 1200):
            await minion.say(output(done.jid, at, "x" * 600))
        items = bench.views.follow(done.jid)
        seen = [await anext(items) for _ in range(3)]
        shown = [(i.stream, len(i.text)) for i in seen if isinstance(i, JobOutputItem)]
        assert shown == [("stdout", 600), ("", 0)]
        for bad in ({"stream": "x"}, {"at": -1}, {"attempt": 2**60}, {"size": -5}):
            await minion.say(JobOutput(**{**vars(output(done.jid, 0, "x")), **bad}))
        assert len(minion.got(Failure)) == 4
        await minion.answer(done.jid)
        assert isinstance([item async for item in items][-1], JobEnd)


async def test_output_is_requested_only_from_agents_that_support_it() -> None:
    async with a_master(job_output_kib=8) as bench:
        minion = await bench.accept("m1")
        await minion.hello()
        await minion.reconnect(wire=JOB_OUTPUT)
        older, newer = minion.got(Welcome)
        assert (older.output_limit, older.output_per_second) == (0, 0)
        assert (newer.output_limit, newer.output_per_second) == (8 * 1024, 64 * 1024)


async def test_output_over_the_rate_of_its_minion_is_confirmed_and_missing() -> None:
    async with a_master(job_output_kib=65536, job_output_per_second_kib=1) as bench:
        fast, slow = await bench.connect("m1", "m2")
        done = await bench.submit("*", fun="cmd.run")
        for minion in (fast, slow):
            await minion.receive(done.jid)
        size, sent = 32 * 1024, 20
        for number in range(sent):
            await fast.say(output(done.jid, number * size, "x" * size))
        await slow.say(output(done.jid, 0, "y"))
        assert len(fast.got(OutputStored)) == sent and not fast.got(Failure)

        async def found(minion: str) -> list[OutputChunk]:
            read = await bench.store.read(lambda conn: output_rows.chunks(conn, done.jid))
            return [chunk for name, chunk in read if name == minion]

        burst = BURST_BYTES + 2 * 1024
        assert [len(chunk.text) for chunk in await found("m1")] == [size] * (burst // (size + 128))
        assert len(await found("m2")) == 1
        bench.hand.advance(60.0)
        await fast.say(output(done.jid, sent * size, "x" * size))
        stored = await found("m1")
        assert stored[-1].missed == size * (sent - len(stored) + 1)


async def test_number_of_stored_chunks_is_bounded_however_small_they_are() -> None:
    async with a_master(job_output_kib=1) as bench:
        (minion,) = await bench.connect("m1")
        done = await bench.submit("m1", fun="cmd.run")
        await minion.receive(done.jid)
        for at in range(50):
            await minion.say(output(done.jid, at, "", size=1))
        stored = await bench.store.read(lambda conn: output_rows.chunks(conn, done.jid))
        # Eight chunks that count 128 each, and the mark at the limit.
        assert [chunk.stream for _, chunk in stored] == ["stdout"] * 8 + [""]


async def test_end_of_the_output_is_found_again_by_the_next_master() -> None:
    async with a_master(job_output_kib=1) as bench:
        (minion,) = await bench.connect("m1")
        done = await bench.submit("m1", fun="cmd.run")
        await minion.receive(done.jid)
        await minion.say(output(done.jid, 0, "x" * 600))

        def ends(conn: sa.Connection) -> list[OutputEnd]:
            known = output_rows.end(conn, done.jid, "m1")
            stale = known._replace(seq=7, kept=1)
            return [known, output_rows.end(conn, done.jid, "m1", stale)]

        first = OutputEnd(1, 0, 600, 600 + CHUNK_COST)
        assert await bench.store.read(ends) == [first, first]


async def test_output_with_nul_characters_is_stored() -> None:
    async with a_master() as bench:
        (minion,) = await bench.connect("m1")
        done = await bench.submit("m1", fun="cmd.run")
        await minion.receive(done.jid)
        await minion.say(output(done.jid, 0, "a\0b"))
        ((_, chunk),) = await bench.store.read(lambda conn: output_rows.chunks(conn, done.jid))
        assert chunk.text == "a\ufffdb"

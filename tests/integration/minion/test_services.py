from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from catena.transport.messages import (
    CHUNK_BYTES,
    EventFired,
    FilePush,
    GrainsUpdate,
    Hello,
    JobProgressed,
    PillarRequest,
    Refused,
)
from tests.integration.minion.harness import Pair
from tests.support.waiting import until

FIRST, SECOND = "20260101000000000001", "20260101000000000002"
CALL = "import sys; from catena.cli.main import main; sys.exit(main())"


async def catena(*arguments: str) -> tuple[int, str, str]:
    """Run the command line beside the loop that serves it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CALL,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_job_receives_pillar_and_files_through_the_daemon(pair: Pair) -> None:
    async with pair() as (master, _agent):
        master.pillar = {"secret": "s3"}
        (master.file_root / "deep").mkdir()
        (master.file_root / "deep" / "a.txt").write_text("ä" * 1_000_000)
        assert (await master.run(FIRST, "probe.pillar_of", "secret")).value == "s3"
        assert len(master.got(PillarRequest)) == 1
        ret = await master.run(SECOND, "probe.read_file", "deep/a.txt")
        assert ret.value == "ä" * 1_000_000, str(ret.value)[:2000]


async def test_job_calls_through_the_master_and_pushes_a_file(pair: Pair, tmp_path: Path) -> None:
    data = b"x" * (CHUNK_BYTES + 1)
    (tmp_path / "big").write_bytes(data)
    async with pair() as (master, _agent):
        ret = await master.run(FIRST, "saltutil.runner", "jobs.list_job", "5")
        assert ret.value == ["runner", "jobs.list_job", 5]
        assert (await master.run(SECOND, "cp.push", str(tmp_path / "big"))).value is True
        parts = master.got(FilePush)
        assert [(part.index, part.count) for part in parts] == [(0, 2), (1, 2)]
        assert b"".join(bytes(part.data) for part in parts) == data


async def test_event_of_a_job_reaches_the_master(pair: Pair) -> None:
    async with pair() as (master, agent):
        ret = await master.run(FIRST, "probe.say", "my/tag")
        assert ret.success, ret
        await until(lambda: master.got(EventFired), "the event")
        event = master.got(EventFired)[0]
        assert (event.tag, event.data["data"]["a"]) == ("my/tag", 1)
        await until(lambda: not list((agent.cache / "outbox").iterdir()), "an empty outbox")
        assert agent.ask("status")["outbox"] == 0


async def test_events_of_a_job_survive_a_kill_of_the_agent(
    pair: Pair,
) -> None:
    async with pair() as (master, agent):
        master.order(FIRST, "probe.say_many", "my/tag", 1000)
        await until(lambda: len(master.got(EventFired)) > 20, "the first events")
        agent.kill()
        agent.begin()
        await until(lambda: FIRST in master.returns, "the return")
        assert master.returns[FIRST].value is True, master.returns[FIRST]

        def numbers() -> set[int]:
            return {event.data["data"]["number"] for event in master.got(EventFired)}

        await until(lambda: numbers() == set(range(1000)), "all events")
        ids = {event.event_id for event in master.got(EventFired)}
        assert len(ids) == 1000, "one that came again has its own id"
        await until(lambda: not list((agent.cache / "outbox").iterdir()), "an empty outbox")


async def test_collected_grains_are_stored_and_reported(pair: Pair) -> None:
    async with pair() as (master, agent):
        (agent.home / "grains").write_text("colour: red\n")
        ret = await master.run(FIRST, "saltutil.refresh_grains")
        assert ret.success, ret
        await until(lambda: master.got(GrainsUpdate), "the grains")
        assert master.got(GrainsUpdate)[0].grains["colour"] == "red"
        assert (await master.run(SECOND, "grains.get", "colour")).value == "red"


async def test_local_call_uses_the_daemon_and_the_pillar_of_the_master(pair: Pair) -> None:
    async with pair() as (master, agent):
        master.pillar = {"secret": "s3"}
        folder = agent.configure()
        code, out, err = await catena(
            "call", "-c", folder, "--out", "json", "probe.pillar_of", "secret"
        )
        assert (code, json.loads(out)) == (0, {"local": "s3"}), err
        assert len(master.got(Hello)) == 1


async def test_local_call_without_a_daemon_asks_the_master_itself(pair: Pair) -> None:
    async with pair() as (master, agent):
        master.pillar = {"secret": "s3"}
        folder = agent.configure()
        agent.kill()
        code, out, err = await catena(
            "call", "-c", folder, "--out", "json", "probe.pillar_of", "secret"
        )
        assert (code, json.loads(out)) == (0, {"local": "s3"}), err
        assert master.got(Hello)[1].role == "caller"
        await master.stop()
        code, out, err = await catena("call", "-c", folder, "--local", "test.ping")
        assert code == 0, err
        await master.restart()


async def test_state_run_of_a_local_call_is_queued(pair: Pair, tmp_path: Path) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"

    async with pair() as (master, agent):
        folder = agent.configure()
        master.order(FIRST, "state.sls", str(witness), str(gate), "job")
        await until(lambda: witness.exists(), "the start of the job")
        arguments = ("call", "-c", folder, "state.sls", str(witness), str(gate), "call")
        called = asyncio.create_task(catena(*arguments))
        await until(lambda: agent.ask("status")["line"] == 1, "the call in line")
        assert witness.read_text() == "job\n"
        gate.touch()
        code, _, err = await called
        assert (code, "queued behind 1" in err) == (0, True), err
        assert witness.read_text() == "job\ncall\n"


async def test_refused_minion_reports_the_reason_and_reconnects(pair: Pair) -> None:
    async with pair() as (master, agent):
        master.send(Refused("duplicate_machine", "machine mach1 is m2", 0.0))
        await until(lambda: "duplicate_machine" in agent.log, "the log line")
        assert "machine mach1 is m2" in agent.log
        assert agent.ask("status")["link"] == "refused: duplicate_machine"


async def test_progress_of_a_state_run_is_reported_live(pair: Pair) -> None:
    async with pair() as (master, agent):
        (agent.cache / "extmods" / "modules" / "state.py").unlink()
        (master.file_root / "demo.sls").write_text("one:\n  test.nop: []\ntwo:\n  test.nop: []\n")
        ret = await master.run(FIRST, "state.sls", "demo")
        assert ret.success and len(ret.value) == 2, ret
        steps = [m.progress for m in master.got(JobProgressed)]
        assert [step.kind for step in steps].count("state") == 2


@pytest.mark.parametrize("verb", ["nonsense"])
async def test_unknown_local_request_is_refused_with_the_known_ones(pair: Pair, verb: str) -> None:
    async with pair() as (_master, agent):
        with pytest.raises(Exception, match="unknown request"):
            agent.ask(verb)
        assert agent.ask("status")["id"] == "m1"

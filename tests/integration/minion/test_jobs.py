from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

from catena.core.job import JobSpec
from catena.minion.jobs import processes
from catena.minion.jobs.store import JobStore
from catena.transport.messages import (
    Hello,
    JobCancel,
    JobReceived,
    JobRejected,
)
from tests.integration.minion.harness import MasterDouble, Pair
from tests.support.waiting import GROWING_SECONDS, until

FIRST, SECOND, THIRD = (f"2026010100000000000{n}" for n in (1, 2, 3))


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def test_job_survives_the_daemon_and_returns_once(pair: Pair, tmp_path: Path) -> None:
    witness, release = tmp_path / "witness", tmp_path / "release"

    async with pair() as (master, agent):
        master.order(FIRST, "probe.hold", str(witness), str(release))
        await until(lambda: lines(witness), "the start of the job")
        agent.kill()
        agent.begin()
        await until(lambda: len(master.got(Hello)) == 2, "the second Hello")
        assert master.got(Hello)[1].open_jobs == (FIRST,)
        assert master.got(Hello)[1].session != master.got(Hello)[0].session
        (job,) = agent.ask("running")
        assert (job["jid"], job["state"]) == (FIRST, "running")
        release.touch()
        await until(lambda: FIRST in master.returns, "the return")
        assert master.returns[FIRST].value == "x"
        await until(lambda: agent.job_folders() == [], "the end of the folder")
        # The same order again, as a master sends it that saw no JobReceived.
        master.order(FIRST, "probe.hold", str(witness), str(release))
        await until(lambda: master.got(JobRejected), "the refusal")
        (refusal,) = master.got(JobRejected)
        assert refusal.jid == FIRST and "has ended here before" in refusal.reason
        await master.run(SECOND, "test.ping")
        assert lines(witness) == ["x"]
        assert master.told == {FIRST: 1, SECOND: 1}


async def test_return_made_without_a_daemon_is_reported_once(pair: Pair, tmp_path: Path) -> None:
    witness, release = tmp_path / "witness", tmp_path / "release"

    async with pair() as (master, agent):
        master.order(FIRST, "probe.hold", str(witness), str(release))
        await until(lambda: lines(witness), "the start of the job")
        agent.kill()
        release.touch()
        folder = agent.cache / "jobs" / FIRST
        await until(lambda: (folder / "return").exists(), "the outcome")
        agent.begin()
        await until(lambda: FIRST in master.returns, "the return")
        assert master.told == {FIRST: 1}


async def test_unknown_name_is_reported_by_new_and_reused_processes(
    pair: Pair,
) -> None:
    async with pair() as (master, _agent):
        names = {FIRST: "test.pin", SECOND: "cmd.rum"}
        await master.run(THIRD, "cmd.run", "true")
        for jid, name in names.items():
            value = (await master.run(jid, name)).value
            assert value.startswith(f"'{name}' is not available. Did you mean"), value


async def test_state_runs_are_queued_and_report_their_position(pair: Pair, tmp_path: Path) -> None:
    witness, gates = tmp_path / "witness", [tmp_path / name for name in "abc"]

    async with pair() as (master, _agent):
        for jid, gate in zip((FIRST, SECOND, THIRD), gates, strict=True):
            master.order(jid, "state.sls", str(witness), str(gate), gate.name)
        await until(lambda: len({m.jid for m in master.got(JobReceived)}) == 3, "the receipts")
        assert [m.position for m in master.got(JobReceived)][:3] == [0, 1, 2]
        await until(lambda: lines(witness) == ["a"], "the first")
        # A job that is no state run passes them.
        await master.run("20260101000000000009", "probe.mark", str(witness), "passes")
        gates[0].touch()
        await until(lambda: lines(witness)[-1] == "b", "the second")
        assert (THIRD, 1) in [(m.jid, m.position) for m in master.got(JobReceived)]
        gates[1].touch()
        gates[2].touch()
        await until(lambda: THIRD in master.returns, "the third")
        assert lines(witness) == ["a", "passes", "b", "c"]


async def test_queue_of_state_runs_survives_the_daemon(pair: Pair, tmp_path: Path) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"

    async with pair() as (master, agent):
        for jid in (FIRST, SECOND, THIRD):
            master.order(jid, "state.sls", str(witness), str(gate), jid)
        await until(lambda: len({m.jid for m in master.got(JobReceived)}) == 3, "the receipts")
        await until(lambda: lines(witness) == [FIRST], "the first")
        agent.kill()
        agent.begin()
        await until(lambda: len(master.got(Hello)) == 2, "the second Hello")
        assert [(job["jid"], job["position"]) for job in agent.ask("running")] == [
            (FIRST, 0),
            (SECOND, 1),
            (THIRD, 2),
        ]
        gate.touch()
        await until(lambda: THIRD in master.returns, "the third")
        assert lines(witness) == [FIRST, SECOND, THIRD]


async def test_deadline_ends_the_whole_process_tree_of_a_job(pair: Pair, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    async with pair() as (master, _agent):
        for jid, seconds in zip((FIRST, SECOND, THIRD), GROWING_SECONDS, strict=True):
            master.order(jid, "probe.stubborn", str(pid_file), deadline_seconds=seconds)
            await until(partial(master.returns.__contains__, jid), "the return")
            ret = master.returns[jid]
            assert not ret.success and "not done after" in ret.value
            if pid_file.exists() and pid_file.read_text():
                break
        pid = int(pid_file.read_text())
        await until(lambda: processes.start_ticks(pid) is None, "the end of the orphan")


async def test_cancelled_job_is_killed_and_returns_as_cancelled(
    pair: Pair, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"

    async with pair() as (master, _agent):
        master.order(FIRST, "state.sls", str(witness), str(tmp_path / "never"))
        master.order(SECOND, "state.sls", str(witness), str(tmp_path / "never"), "second")
        await until(lambda: lines(witness), "the start")
        master.send(JobCancel(SECOND, "not wanted"))
        await until(lambda: SECOND in master.returns, "the end of the waiting one")
        master.send(JobCancel(FIRST, "enough"))
        await until(lambda: FIRST in master.returns, "the end of the running one")
        assert master.returns[FIRST].value == "cancelled: enough"
        assert master.returns[SECOND].value == "cancelled: not wanted"
        assert lines(witness) == ["x"]
        # One that was cancelled before it came is never begun.
        master.send(JobCancel(THIRD, "early"))
        master.order(THIRD, "probe.mark", str(witness))
        await until(lambda: master.got(JobRejected), "the refusal")
        assert master.got(JobRejected)[0].jid == THIRD


async def test_job_with_endless_output_is_ended(pair: Pair) -> None:
    async with pair() as (master, _agent):
        ret = await master.run(FIRST, "probe.flood", 3_000_000, output_limit=1000)
        assert not ret.success and "printed more than" in ret.value


async def test_warnings_of_a_job_are_in_the_log_of_the_agent(pair: Pair) -> None:
    async with pair() as (master, agent):
        ret = await master.run(FIRST, "probe.murmur", "the disk is old")
        assert ret.success
        await until(lambda: f"warning job {FIRST}: the disk is old" in agent.log, "the line")


async def test_job_of_a_killed_process_returns_as_interrupted(pair: Pair) -> None:
    async with pair() as (master, _agent):
        ret = await master.run(FIRST, "probe.vanish")
        assert not ret.success and ret.value.startswith("interrupted")
        ret = await master.run(SECOND, "probe.leave")
        assert not ret.success and "ended the process with status 3" in ret.value
        assert (await master.run(THIRD, "probe.mark", os.devnull)).success


async def test_large_return_is_sent_in_parts(pair: Pair) -> None:
    async with pair() as (master, _agent):
        ret = await master.run(FIRST, "probe.big", 2_000_000)
        assert ret.value == "ä" * 2_000_000
        assert master.told == {FIRST: 1}


async def test_returns_wait_for_a_master_that_is_away(pair: Pair, tmp_path: Path) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"

    async with pair() as (master, agent):
        master.order(FIRST, "probe.hold", str(witness), str(gate))
        await until(lambda: lines(witness), "the start")
        await master.stop()
        gate.touch()
        await until(lambda: (agent.cache / "jobs" / FIRST / "return").exists(), "the outcome")
        agent.kill()
        agent.begin()
        await master.restart()
        await until(lambda: FIRST in master.returns, "the return")
        assert master.got(Hello)[-1].open_jobs == (FIRST,)
        assert master.told == {FIRST: 1}


async def test_expired_order_is_refused(pair: Pair, tmp_path: Path) -> None:
    async with pair() as (master, _agent):
        master.order(FIRST, "probe.mark", str(tmp_path / "witness"), not_after=1.0)
        await until(lambda: master.got(JobRejected), "the refusal")
        assert not (tmp_path / "witness").exists()


async def test_sigterm_leaves_jobs_running(pair: Pair, tmp_path: Path) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"

    async with pair() as (master, agent):
        master.order(FIRST, "probe.hold", str(witness), str(gate))
        await until(lambda: lines(witness), "the start")
        assert agent.kill(signal.SIGTERM) == 0
        gate.touch()
        await until(lambda: (agent.cache / "jobs" / FIRST / "return").exists(), "the outcome")
        agent.begin()
        await until(lambda: FIRST in master.returns, "the return")


async def test_damaged_job_folder_does_not_stop_the_start(pair: Pair, tmp_path: Path) -> None:
    async with pair() as (master, agent):
        agent.kill()
        folder = agent.cache / "jobs" / FIRST
        folder.mkdir()
        (folder / "spec").write_bytes(bytes(4096))
        agent.begin()
        assert (await ping(master, SECOND, 2)) is True
        assert agent.job_folders() == [f"bad-{FIRST}"]


async def ping(master: MasterDouble, jid: str, hellos: int) -> Any:
    await until(lambda: len(master.got(Hello)) == hellos, "the Hello")
    return (await master.run(jid, "test.ping")).value


async def test_order_sent_twice_at_once_runs_once(pair: Pair, tmp_path: Path) -> None:
    witness = tmp_path / "witness"

    async with pair() as (master, _agent):
        for _ in range(5):
            master.order(FIRST, "probe.mark", str(witness))
        await until(lambda: FIRST in master.returns, "the return")
        for _ in range(5):
            master.order(FIRST, "probe.mark", str(witness))
        await master.run(SECOND, "test.ping")
        assert lines(witness) == ["x"]


async def test_chain_continues_when_a_power_failure_tore_its_last_record(
    pair: Pair, tmp_path: Path
) -> None:
    async with pair() as (master, agent):
        agent.kill()
        for jid, fun in ((FIRST, "mgractionchains.resume"), (SECOND, "probe.mark")):
            JobStore(agent.cache).add(JobSpec(jid, fun))
            (agent.cache / "jobs" / jid / "process").write_bytes(b"")
        agent.begin()
        await until(lambda: len(master.returns) == 2, "the returns")
        # Nothing waits, so the resume has nothing to do; it was run, not given up.
        assert master.returns[FIRST].success, master.returns[FIRST]
        assert master.returns[SECOND].value.startswith("interrupted")
        assert not (tmp_path / "witness").exists()


async def test_killed_template_process_ends_no_job(pair: Pair, tmp_path: Path) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"

    async with pair() as (master, agent):
        master.order(FIRST, "probe.hold", str(witness), str(gate))
        await until(lambda: lines(witness), "the start")
        assert agent.process is not None
        children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children")
        (template,) = children.read_text().split()
        os.kill(int(template), signal.SIGKILL)
        assert (await master.run(SECOND, "probe.mark", str(witness), "second")).success
        gate.touch()
        await until(lambda: FIRST in master.returns, "the return")
        assert master.returns[FIRST].success
        assert children.read_text().split() != [template]


async def test_return_is_reported_once_it_can_be_stored(pair: Pair, tmp_path: Path) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"

    async with pair() as (master, agent):
        log, aside = agent.cache / "jobs.log", agent.cache / "kept"
        master.order(FIRST, "probe.hold", str(witness), str(gate))
        await until(lambda: lines(witness), "the start")
        log.rename(aside)
        log.mkdir()
        gate.touch()
        await until(lambda: "its return cannot be stored yet" in agent.log, "the error")
        assert (await master.run(SECOND, "test.ping")).value is True
        assert FIRST not in master.returns
        log.rmdir()
        aside.rename(log)
        await until(lambda: FIRST in master.returns, "the return")
        await until(lambda: agent.job_folders() == [], "the end of the folder")
        assert master.returns[FIRST].success and len(lines(witness)) == 1


async def test_oversized_reply_to_a_job_fails_only_that_job(pair: Pair, tmp_path: Path) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"

    async with pair() as (master, _agent):
        for jid in (FIRST, SECOND):
            master.order(jid, "probe.hold", str(witness), str(gate), "x" * 150_000)
        await until(lambda: len(lines(witness)) == 2, "the start of both")
        ret = await master.run(THIRD, "saltutil.running")
        assert not ret.success and "cannot be sent" in ret.value
        gate.touch()
        await until(lambda: {FIRST, SECOND} <= set(master.returns), "the returns")

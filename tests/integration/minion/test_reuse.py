from __future__ import annotations

import contextlib
import os
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

from catena.core.job import JobReturn
from catena.minion.jobs import processes
from catena.minion.jobs.record import JobProcess
from catena.transport.messages import Hello, JobCancel
from tests.integration.minion.harness import MasterDouble, Pair
from tests.support.waiting import until


def jid(number: int) -> str:
    return f"202601010000000000{number:02d}"


async def commands(master: MasterDouble, first: int, count: int, words: str) -> list[str]:
    """Return what *words* printed in jobs one after the other."""
    found: list[str] = []
    for number in range(first, first + count):
        ret: JobReturn = await master.run(jid(number), "cmd.run", words)
        found.append(ret.value)
    return found


async def test_commands_that_leave_nothing_behind_reuse_a_process(pair: Pair) -> None:
    async with pair() as (master, agent):
        shutil.rmtree(agent.cache / "extmods")
        told = await commands(master, 10, 6, "echo $PPID; pwd; echo $0 >&2")
        # A machine that stands still for seconds between two of them may begin a new one.
        assert len({text.split()[0] for text in told}) < 6
        assert len({text.split(maxsplit=1)[1] for text in told}) == 1


async def test_process_with_a_child_left_running_is_not_reused(pair: Pair) -> None:
    async with pair() as (master, agent):
        shutil.rmtree(agent.cache / "extmods")
        (told,) = await commands(master, 10, 1, "sleep 600 >/dev/null 2>&1 & echo $PPID $!")
        worker, left = told.split()
        try:
            assert worker not in await commands(master, 20, 2, "echo $PPID")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(left), signal.SIGKILL)


#: A custom file that the name of a built-in module loads, and one that it does not.
ADDS, OTHER = "__virtualname__ = 'cmd'\n\ndef more():\n    return 1\n", "def x():\n    return 1\n"


async def test_process_that_loaded_a_custom_file_is_not_reused(
    pair: Pair,
) -> None:
    async with pair() as (master, agent):
        (agent.cache / "extmods" / "modules" / "adds.py").write_text(ADDS, encoding="utf-8")
        assert len(set(await commands(master, 10, 3, "echo $PPID"))) == 3


async def test_processes_are_not_reused_when_custom_grains_exist(
    pair: Pair,
) -> None:
    async with pair() as (master, agent):
        grains = agent.cache / "extmods" / "grains"
        grains.mkdir(mode=0o700)
        (grains / "mine.py").write_text(OTHER, encoding="utf-8")
        assert len(set(await commands(master, 10, 3, "echo $PPID"))) == 3


async def test_process_is_reused_when_it_loaded_no_custom_file(
    pair: Pair,
) -> None:
    async with pair() as (master, agent):
        (agent.cache / "extmods" / "modules" / "other.py").write_text(OTHER, encoding="utf-8")
        assert len(set(await commands(master, 10, 6, "echo $PPID"))) < 6


async def test_file_jobs_reuse_a_process_and_leave_no_folder(pair: Pair, tmp_path: Path) -> None:
    async with pair() as (master, agent):
        for number in range(10, 16):
            ret: JobReturn = await master.run(jid(number), "file.touch", str(tmp_path / "made"))
            assert ret.value is True
        # A job dispatched to a warm worker has no folder. After a pause of seconds, as on a loaded
        # machine, a new process starts, whose folder is removed once its return is stored.
        await until(lambda: agent.job_folders() == [], "the end of the folders")
        assert (tmp_path / "made").stat().st_mode & 0o777 == 0o644


async def test_killed_idle_process_loses_no_job(pair: Pair) -> None:
    async with pair() as (master, agent):
        shutil.rmtree(agent.cache / "extmods")
        (worker,) = await commands(master, 10, 1, "echo $PPID")
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(worker), signal.SIGKILL)
        await until(lambda: processes.start_ticks(int(worker)) is None, "its end")
        (other,) = await commands(master, 20, 1, "echo $PPID")
        assert other != worker
        assert master.told == {jid(10): 1, jid(20): 1}


def test_deadline_of_a_reused_process_counts_from_the_job() -> None:
    ref: Any = processes.ProcessRef(1, int(100 * os.sysconf("SC_CLK_TCK")), "boot")
    assert JobProcess(1, 60.0, asked=130.0, process=ref).age(150.0) == 20.0
    assert JobProcess(1, 60.0, process=ref).age(150.0) == 50.0


#: Says its shell's parent and that it runs, then waits for a file or the end of the test's folder.
HOLD = "echo $PPID >> {0}; while [ -e {0} ] && [ ! -e {1} ]; do sleep 0.02; done; echo x"


def is_told(witness: Path) -> bool:
    """Return whether a command has said all of that; its file is there before."""
    return witness.exists() and witness.read_text(encoding="utf-8").endswith("\n")


async def test_job_in_a_reused_process_survives_the_daemon_and_returns_once(
    pair: Pair, tmp_path: Path
) -> None:
    witness, release = tmp_path / "witness", tmp_path / "release"

    async with pair() as (master, agent):
        shutil.rmtree(agent.cache / "extmods")
        await commands(master, 10, 2, "true")
        master.order(jid(20), "cmd.run", HOLD.format(witness, release))
        await until(partial(is_told, witness), "the start of the job")
        agent.kill()
        agent.begin()
        await until(lambda: len(master.got(Hello)) == 2, "the second Hello")
        assert master.got(Hello)[1].open_jobs == (jid(20),)
        (job,) = agent.ask("running")
        assert (job["jid"], job["state"], job["fun"]) == (jid(20), "running", "cmd.run")
        release.touch()
        await until(lambda: jid(20) in master.returns, "the return")
        assert master.returns[jid(20)].value == "x"
        await until(lambda: agent.job_folders() == [], "the end of the folder")
        await commands(master, 30, 1, "true")
        assert len(witness.read_text().split()) == 1
        assert master.told[jid(20)] == master.told[jid(30)] == 1


async def test_unread_result_is_found_by_the_next_daemon(pair: Pair, tmp_path: Path) -> None:
    witness, release = tmp_path / "witness", tmp_path / "release"

    async with pair() as (master, agent):
        shutil.rmtree(agent.cache / "extmods")
        await commands(master, 10, 2, "true")
        master.order(jid(20), "cmd.run", HOLD.format(witness, release))
        await until(partial(is_told, witness), "the start of the job")
        assert agent.process is not None
        agent.process.send_signal(signal.SIGSTOP)
        worker = int(witness.read_text())
        release.touch()
        # It has said what it came to when it waits for more.
        await until(lambda: not processes.descendants(worker), "the end of the command")
        agent.kill()
        await until(lambda: processes.start_ticks(worker) is None, "the end of its process")
        agent.begin()
        await until(lambda: jid(20) in master.returns, "the return")
        assert master.returns[jid(20)].value == "x" and master.told[jid(20)] == 1


async def test_job_in_a_reused_process_can_be_cancelled_alone(pair: Pair, tmp_path: Path) -> None:
    late = tmp_path / "late"

    try:
        async with pair() as (master, agent):
            shutil.rmtree(agent.cache / "extmods")
            await commands(master, 10, 2, "true")
            for number, end in ((20, "cancelled"), (21, "interrupted")):
                witness = tmp_path / end
                master.order(jid(number), "cmd.run", HOLD.format(witness, late))
                await until(partial(is_told, witness), "the start of the job")
                if end == "cancelled":
                    master.send(JobCancel(jid(number), "enough"))
                else:
                    os.kill(int(witness.read_text()), signal.SIGKILL)
                await until(partial(master.returns.get, jid(number)), "the return")
                ret = master.returns[jid(number)]
                assert str(ret.value).startswith(end) and not ret.success
                assert await commands(master, number + 10, 2, "echo y") == ["y", "y"]
    finally:
        late.touch()  # the command of a process that was killed goes on without it


async def test_stopping_agent_stores_its_jobs_in_reused_processes_as_folders(
    pair: Pair, tmp_path: Path
) -> None:
    """The next agent may be an older one, which knows nothing of lines."""
    witness, release = tmp_path / "witness", tmp_path / "release"

    async with pair() as (master, agent):
        shutil.rmtree(agent.cache / "extmods")
        await commands(master, 10, 2, "true")
        master.stores = False
        await commands_told(master, 12, "echo y")
        master.order(jid(20), "cmd.run", HOLD.format(witness, release))
        await until(partial(is_told, witness), "the start of the job")
        agent.kill(signal.SIGTERM)
        assert agent.job_folders() == [jid(12), jid(20)]
        assert (agent.cache / "jobs" / jid(12) / "return").exists()
        assert os.path.lexists(agent.cache / "jobs" / jid(20) / "process")
        release.touch()
        master.stores = True
        agent.begin()
        await until(lambda: {jid(12), jid(20)} <= set(master.returns), "the returns")
        assert master.returns[jid(20)].value == "x" and master.returns[jid(12)].value == "y"


async def commands_told(master: MasterDouble, number: int, words: str) -> None:
    """Have a command run whose return is told and not stored."""
    master.order(jid(number), "cmd.run", words)
    await until(lambda: master.told.get(jid(number)), "the return")

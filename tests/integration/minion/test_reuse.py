from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable
from typing import Any

from catena.core.job import JobReturn
from catena.minion.jobs import processes
from catena.minion.jobs.runner import Running
from tests.integration.minion.harness import Agent, MasterDouble, until


def jid(number: int) -> str:
    return f"202601010000000000{number:02d}"


async def commands(master: MasterDouble, first: int, count: int, words: str) -> list[str]:
    """Return what *words* printed in jobs one after the other."""
    found: list[str] = []
    for number in range(first, first + count):
        ret: JobReturn = await master.run(jid(number), "cmd.run", words)
        found.append(ret.value)
    return found


def test_commands_that_leave_nothing_behind_share_a_process(run: Callable[..., None]) -> None:
    async def scenario(master: MasterDouble, agent: Agent) -> None:
        shutil.rmtree(agent.cache / "extmods")
        told = await commands(master, 10, 6, "echo $PPID; pwd; echo $0 >&2")
        # A machine that stands still for seconds between two of them may begin a new one.
        assert len({text.split()[0] for text in told}) < 6
        assert len({text.split(maxsplit=1)[1] for text in told}) == 1

    run(scenario)


def test_a_process_with_something_left_running_has_no_second_job(run: Callable[..., None]) -> None:
    async def scenario(master: MasterDouble, agent: Agent) -> None:
        shutil.rmtree(agent.cache / "extmods")
        (told,) = await commands(master, 10, 1, "sleep 600 >/dev/null 2>&1 & echo $PPID $!")
        worker, left = told.split()
        try:
            assert worker not in await commands(master, 20, 2, "echo $PPID")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(left), signal.SIGKILL)

    run(scenario)


def test_where_custom_files_may_be_loaded_each_job_has_its_own_process(
    run: Callable[..., None],
) -> None:
    async def scenario(master: MasterDouble, agent: Agent) -> None:
        assert (agent.cache / "extmods").exists()
        assert len(set(await commands(master, 10, 3, "echo $PPID"))) == 3

    run(scenario)


def test_a_kept_process_that_is_killed_costs_no_job(run: Callable[..., None]) -> None:
    async def scenario(master: MasterDouble, agent: Agent) -> None:
        shutil.rmtree(agent.cache / "extmods")
        (worker,) = await commands(master, 10, 1, "echo $PPID")
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(worker), signal.SIGKILL)
        await until(lambda: processes.start_ticks(int(worker)) is None, "its end")
        (other,) = await commands(master, 20, 1, "echo $PPID")
        assert other != worker
        assert master.told == {jid(10): 1, jid(20): 1}

    run(scenario)


def test_a_deadline_counts_from_the_job_and_not_from_its_process() -> None:
    ref: Any = processes.ProcessRef(1, int(100 * os.sysconf("SC_CLK_TCK")), "boot")
    assert Running(1, 60.0, asked=130.0, process=ref).age(150.0) == 20.0
    assert Running(1, 60.0, process=ref).age(150.0) == 50.0

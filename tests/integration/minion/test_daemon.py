from __future__ import annotations

from pathlib import Path

from catena.transport.messages import Hello, JobReceived
from tests.integration.minion.harness import a_pair
from tests.support.waiting import until

JID = "20260101000000000001"


async def test_agent_answers_a_ping_without_a_job_process(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as (master, agent):
        ret = await master.run(JID, "test.ping")
        assert (ret.value, ret.success, ret.retcode) == (True, True, 0)
        assert agent.job_folders() == []
        hello = master.got(Hello)[0]
        assert hello.first and hello.open_jobs == () and hello.boot_id == "boot-1"


async def test_job_runs_in_a_process_and_its_folder_is_removed_after_the_ack(
    tmp_path: Path,
) -> None:
    async with a_pair(tmp_path) as (master, agent):
        ret = await master.run(JID, "test.echo", "hello")
        assert (ret.value, ret.success) == ("hello", True), ret
        assert [(m.jid, m.position) for m in master.got(JobReceived)] == [(JID, 0)]
        await until(lambda: agent.job_folders() == [], "the end of the folder")

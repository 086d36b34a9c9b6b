from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from catena.transport.messages import Hello, JobOutput, OutputStored, Welcome
from tests.integration.minion.harness import Agent, MasterDouble, a_pair
from tests.support.waiting import until

JID = "20260101000000000001"
#: Prints a line, waits for a file, prints the next one.
SCRIPT = (
    "for n in 1 2 3; do echo line $n; touch {0}/said$n; "
    "while [ ! -e {0}/$n ]; do sleep 0.05; done; done"
)


class Taker(MasterDouble):
    """A master's double that takes output, and confirms it if it is to."""

    confirms = True

    def _answer(self, peer: Any, message: Any) -> Any:
        if isinstance(message, Hello):
            super()._answer(peer, message)
            return Welcome("1", 15, 0, output_per_second=65536, output_limit=65536)
        if isinstance(message, JobOutput) and self.confirms:
            return OutputStored(message.jid, message.attempt, message.at + message.size)
        return super()._answer(peer, message)

    def has(self, line: str) -> bool:
        return line in self.text()

    def text(self) -> str:
        return "".join(part.text for part in self.got(JobOutput))


@asynccontextmanager
async def taking(home: Path) -> AsyncIterator[tuple[Taker, Agent]]:
    async with a_pair(home, make=Taker) as (master, agent):
        assert isinstance(master, Taker)
        yield master, agent


async def test_output_lines_arrive_while_the_command_runs(tmp_path: Path) -> None:
    async with taking(tmp_path) as (master, _):
        master.order(JID, "cmd.run", SCRIPT.format(tmp_path))
        for number in (1, 2, 3):
            await until(partial(master.has, f"line {number}\n"), "the line")
            assert JID not in master.returns
            (tmp_path / str(number)).touch()
        await until(lambda: JID in master.returns, "the return")
        assert master.returns[JID].value == "line 1\nline 2\nline 3"
        parts = master.got(JobOutput)
        ends = [0, *(part.at + part.size for part in parts)]
        assert [part.at for part in parts] == ends[:-1]


async def test_killed_agent_leaves_an_output_gap_of_known_size_and_a_complete_return(
    tmp_path: Path,
) -> None:
    async with taking(tmp_path) as (master, agent):
        master.order(JID, "cmd.run", SCRIPT.format(tmp_path))
        await until(lambda: "line 1\n" in master.text(), "the first line")
        agent.kill()
        (tmp_path / "1").touch()
        # The second line is printed while there is no agent.
        await until((tmp_path / "said2").exists, "the second line")
        seen = len(master.got(Hello))
        agent.begin()
        await until(lambda: len(master.got(Hello)) > seen, "the next Hello")
        (tmp_path / "2").touch()
        await until(lambda: "line 3\n" in master.text(), "the third line")
        last = master.got(JobOutput)[-1]
        assert last.at + last.size == len("line 1\nline 2\nline 3\n")
        (tmp_path / "3").touch()
        await until(lambda: JID in master.returns, "the return")
        assert master.returns[JID].value == "line 1\nline 2\nline 3"


async def test_unconfirmed_output_is_resent_on_a_new_connection(tmp_path: Path) -> None:
    async with taking(tmp_path) as (master, _):
        master.confirms = False
        master.order(JID, "cmd.run", SCRIPT.format(tmp_path))
        await until(lambda: "line 1\n" in master.text(), "the first line")
        seen = len(master.got(Hello))
        await master.stop()
        await master.restart()
        await until(lambda: len(master.got(Hello)) > seen, "the next Hello")
        await until(lambda: master.text().count("line 1\n") == 2, "the first line again")
        for number in (1, 2, 3):
            (tmp_path / str(number)).touch()
        await until(lambda: JID in master.returns, "the return")
        assert master.returns[JID].value == "line 1\nline 2\nline 3"
        first = [part for part in master.got(JobOutput) if "line 1\n" in part.text]
        assert {(part.at, part.text) for part in first} == {(0, "line 1\n")}


async def test_output_is_not_sent_unless_the_master_requests_it(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as (master, _):
        ret = await master.run(JID, "cmd.run", "echo one; sleep 2; echo two")
        assert ret.value == "one\ntwo" and master.got(JobOutput) == []

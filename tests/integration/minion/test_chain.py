from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from catena.core.payloads import of_chain
from catena.transport.messages import Hello, JobReceived
from tests.integration.minion.chains import chain
from tests.integration.minion.harness import Agent, MasterDouble, Pair
from tests.support.waiting import until

START, RESUME, OTHER, LATER = (f"2026010100000000000{n}" for n in (1, 2, 3, 4))


async def ready(
    master: MasterDouble, agent: Agent, reboots: Path, **settings: Any
) -> dict[str, Any]:
    """Start the agent again on a host whose reboot leaves a line and changes the boot id.

    Returns:
        The settings that it has now, for the next start.
    """
    (agent.cache / "extmods" / "modules" / "state.py").unlink()
    # The start of a chain syncs custom modules with the master's.
    (master.file_root / "_modules").mkdir()
    shutil.copy(Path(__file__).with_name("probe.py"), master.file_root / "_modules")
    boot = agent.start.settings.boot_id_file
    script = agent.home / "reboot.sh"
    script.write_text(f"#!/bin/sh\necho reboot >> {reboots}\necho boot-2 > {boot}\n")
    script.chmod(0o700)
    more = {"reboot_command": [str(script)], **settings}
    agent.kill()
    agent.launch(**more)
    await until(lambda: len(master.got(Hello)) == 2, "the Hello")
    return more


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def test_chain_continues_after_a_reboot_and_others_wait_behind_it(
    pair: Pair, tmp_path: Path
) -> None:
    witness, reboots = tmp_path / "witness", tmp_path / "reboots"

    async with pair() as (master, agent):
        more = await ready(master, agent, reboots)
        manifest = chain(master.file_root, witness)
        other = chain(master.file_root, witness, 8)
        ret = await master.run(START, "mgractionchains.start", 7, payload=of_chain(manifest))
        assert ret.success, str(ret.value)
        assert lines(witness) == ["7-1"]
        await until(lambda: lines(reboots), "the reboot")
        # Between boundary and boot: another chain has to wait, visibly.
        master.order(OTHER, "mgractionchains.start", 8, payload=of_chain(other))
        await until(lambda: OTHER in [m.jid for m in master.got(JobReceived)], "the receipt")
        agent.kill()
        agent.launch(**more)
        await until(lambda: len(master.got(Hello)) == 3, "the Hello after the boot")
        hello = master.got(Hello)[-1]
        assert hello.boot_id == "boot-2" and hello.open_jobs == (OTHER,)
        assert hello.pending_resume, "the resume file is told"
        assert agent.ask("status")["held_chain"] == 7
        ret = await master.run(RESUME, "mgractionchains.resume")
        assert ret.success, str(ret.value)
        await until(lambda: OTHER in master.returns, "the other chain")
        assert master.returns[OTHER].success, str(master.returns[OTHER])
        assert lines(witness) == ["7-1", "7-3", "8-1"]
        assert lines(reboots)[0] == "reboot"


async def test_ended_job_lets_no_other_job_overtake_the_waiting_chain(
    pair: Pair, tmp_path: Path
) -> None:
    witness, reboots = tmp_path / "witness", tmp_path / "reboots"

    async with pair() as (master, agent):
        more = await ready(master, agent, reboots)
        await master.run(
            START, "mgractionchains.start", 7, payload=of_chain(chain(master.file_root, witness))
        )
        await until(lambda: lines(reboots), "the reboot")
        other = chain(master.file_root, witness, 8)
        master.order(OTHER, "mgractionchains.start", 8, payload=of_chain(other))
        ret = await master.run(LATER, "probe.vanish")
        assert ret.value.startswith("interrupted")
        assert agent.ask("status")["held_chain"] == 7
        agent.kill()  # as a boot does
        agent.launch(**more)
        await until(lambda: len(master.got(Hello)) == 3, "the Hello after the boot")
        assert (await master.run(RESUME, "mgractionchains.resume")).success
        await until(lambda: OTHER in master.returns, "the other chain")
        assert master.returns[OTHER].success, str(master.returns[OTHER])
        assert lines(witness) == ["7-1", "7-3", "8-1"]
        # The chain that waits now is the other one; what is told of the first is over.
        assert agent.ask("status")["held_chain"] == 8


async def test_cancelled_chain_does_not_reboot(pair: Pair, tmp_path: Path) -> None:
    witness, reboots = tmp_path / "witness", tmp_path / "reboots"

    async with pair() as (master, agent):
        await ready(master, agent, reboots)
        manifest = chain(master.file_root, witness, minutes=1)
        await master.run(START, "mgractionchains.start", 7, payload=of_chain(manifest))
        assert (await master.run(RESUME, "mgractionchains.clean")).value["removed"]
        await until(lambda: "is cancelled: chain 7 was given up" in agent.log, "the line")
        assert not lines(reboots)


async def test_killed_daemon_loses_and_repeats_no_action_of_a_chunk(
    pair: Pair, tmp_path: Path
) -> None:
    witness, reboots, gate = (tmp_path / name for name in ("witness", "reboots", "gate"))

    async with pair() as (master, agent):
        more = await ready(master, agent, reboots)
        manifest = chain(master.file_root, witness, gate=str(gate))
        master.order(START, "mgractionchains.start", 7, payload=of_chain(manifest))
        await until(lambda: lines(witness), "the first action")
        agent.kill()
        agent.launch(**more)
        await until(lambda: len(master.got(Hello)) == 3, "the next Hello")
        assert not lines(reboots)
        gate.touch()
        await until(lambda: START in master.returns, "the return")
        await until(lambda: lines(reboots), "the reboot")
        assert master.returns[START].success
        assert master.told[START] == 1
        assert lines(witness) == ["7-1"]


async def test_reboot_waits_for_the_return_for_a_limited_time(pair: Pair, tmp_path: Path) -> None:
    witness, reboots = tmp_path / "witness", tmp_path / "reboots"

    async with pair() as (master, agent):
        more = await ready(master, agent, reboots)
        master.stores = False
        manifest = chain(master.file_root, witness)
        master.order(START, "mgractionchains.start", 7, payload=of_chain(manifest))
        await until(lambda: master.told.get(START), "the return, which is not acked")
        assert not lines(reboots)
        await until(lambda: lines(reboots), "the reboot")
        assert (agent.cache / "jobs" / START / "return").exists()
        agent.kill()
        master.stores = True
        agent.launch(**more)
        await until(lambda: START in master.returns, "the return after the boot")


async def test_chain_continues_without_its_master_with_resume_local(
    pair: Pair, tmp_path: Path
) -> None:
    witness, reboots = tmp_path / "witness", tmp_path / "reboots"

    async with pair() as (master, agent):
        more = await ready(master, agent, reboots, resume="local", resume_after_seconds=0)
        await master.run(
            START, "mgractionchains.start", 7, payload=of_chain(chain(master.file_root, witness))
        )
        await until(lambda: lines(reboots), "the reboot")
        await master.stop()
        agent.kill()
        agent.launch(**more)
        await until(lambda: lines(witness) == ["7-1", "7-3"], "the second chunk")
        await master.restart()
        await until(lambda: len(master.returns) == 2, "the return of the second chunk")
        assert not (agent.cache / "chain_pillar").exists()
        (ret,) = [ret for jid, ret in master.returns.items() if jid != START]
        assert ret.fun == "mgractionchains.resume" and ret.success

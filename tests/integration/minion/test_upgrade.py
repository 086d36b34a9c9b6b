from __future__ import annotations

import os
import signal
import zipfile
from pathlib import Path

import catena
from catena.runtime import agent_versions
from catena.runtime.agent_versions import UpgradeState
from catena.transport.messages import Hello
from tests.integration.minion.harness import Agent, Pair
from tests.support.waiting import until

FIRST, SECOND, THIRD = (f"2026010100000000000{n}" for n in (1, 2, 3))


def wheel(folder: Path, version: str, change: tuple[str, str, str] | None = None) -> Path:
    """Write a wheel of the code under test as another version; *change* edits one file of it."""
    path = folder / f"catena-{version}-py3-none-any.whl"
    top = Path(catena.__file__).parent
    with zipfile.ZipFile(path, "w") as archive:
        for home, folders, files in os.walk(top, followlinks=True):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in files:
                where = Path(home) / name
                inside = f"catena/{where.relative_to(top)}"
                text = where.read_bytes().decode("utf-8")
                if inside == "catena/__init__.py":
                    text = text.replace(catena.__version__, version)
                if change and inside == change[0]:
                    assert change[1] in text
                    text = text.replace(change[1], change[2])
                archive.writestr(inside, text)
    return path


def state(agent: Agent) -> UpgradeState | None:
    upgrade = agent_versions.read(agent.cache)
    return upgrade.state if upgrade else None


async def test_running_job_continues_when_the_agent_changes_version(
    pair: Pair, tmp_path: Path
) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"

    async with pair() as (master, agent):
        master.order(FIRST, "probe.hold", str(witness), str(gate))
        await until(witness.exists, "the start of the job")
        agent.configure()
        ret = await master.run(SECOND, "agent.install", str(wheel(tmp_path, "9.0.1")))
        assert ret.value["changes"] == {"agent": {"old": catena.__version__, "new": "9.0.1"}}
        await until(lambda: len(master.got(Hello)) == 2, "the Hello of the new agent")
        assert master.got(Hello)[-1].version == "9.0.1"
        assert agent.ask("status")["version"] == "9.0.1"
        await until(lambda: state(agent) is UpgradeState.confirmed, "the confirmation")
        gate.touch()
        await until(lambda: FIRST in master.returns, "the return of the old agent's job")
        assert (await master.run(THIRD, "agent.version")).value == "9.0.1"
        assert master.told == {FIRST: 1, SECOND: 1, THIRD: 1}


async def test_agent_version_that_ends_at_once_is_rolled_back(pair: Pair, tmp_path: Path) -> None:
    async with pair() as (master, agent):
        agent.configure()
        change = (
            "catena/minion/daemon.py",
            "    start = blob.read(",
            "    return\n    start = blob.read(",
        )
        bad = wheel(tmp_path, "9.0.2", change)
        await master.run(FIRST, "agent.install", str(bad))
        await until(lambda: len(master.got(Hello)) == 2, "the Hello of the old agent")
        assert master.got(Hello)[-1].version == catena.__version__
        assert state(agent) is UpgradeState.fell_back
        versions = (await master.run(SECOND, "agent.versions")).value
        assert versions["upgrade"]["reason"] == "the new agent ended"
        assert (versions["current"], versions["installed"]) == ("", ["9.0.2"])
        os.kill(agent.ask("status")["pid"], signal.SIGTERM)
        await until(lambda: not (agent.start.run_dir / "minion.sock").exists(), "its end")


async def test_wheel_that_cannot_start_never_becomes_current(pair: Pair, tmp_path: Path) -> None:
    async with pair() as (master, _agent):
        change = ("catena/minion/loop.py", "import zmq", "import zmq_of_tomorrow")
        bad = wheel(tmp_path, "9.0.3", change)
        ret = await master.run(FIRST, "agent.install", str(bad))
        assert not ret.success and "zmq_of_tomorrow" in ret.value
        assert agent_versions.installed(tmp_path / "agent") == []
        ret = await master.run(SECOND, "agent.install", str(tmp_path / "catena-1.whl"))
        assert not ret.success and "no such file" in ret.value
        assert len(master.got(Hello)) == 1

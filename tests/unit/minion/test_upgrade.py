from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import catena
from catena.core.clock import read_boot_id
from catena.core.config.minion import MinionSettings
from catena.core.errors import NotFoundError
from catena.minion import launch, upgrade
from catena.minion.jobs import processes
from catena.minion.start.blob import StartData
from catena.runtime import agent_versions, chain_run
from catena.runtime.agent_versions import BadWheelError, Upgrade, UpgradeState


def a_version(agent_dir: Path, version: str) -> None:
    home = agent_dir / "versions" / version
    (home / "site").mkdir(parents=True)
    (home / agent_versions.VERSION_FILE).write_text("{}")


def test_current_version_is_switched_and_rolled_back(tmp_path: Path) -> None:
    a_version(tmp_path, "1.0")
    a_version(tmp_path, "1.1")
    assert agent_versions.current(tmp_path) == ""
    agent_versions.switch(tmp_path, "1.0")
    cache = tmp_path / "cache"
    cache.mkdir()
    agent_versions.ask(tmp_path, cache, "1.1")
    assert upgrade.wants_restart(cache)
    assert agent_versions.begin_switch(tmp_path, cache) is not None
    assert agent_versions.current(tmp_path) == "1.1" and not upgrade.wants_restart(cache)
    assert agent_versions.fall_back(tmp_path, cache, "it hangs")
    assert agent_versions.current(tmp_path) == "1.0"
    assert "it hangs" in agent_versions.untold_failure(cache)
    agent_versions.tell_failure(cache)
    assert agent_versions.untold_failure(cache) == ""


def test_rolled_back_upgrade_is_reported_only_after_the_chain_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = MinionSettings(cache_dir=str(tmp_path / "c"), pki_dir=str(tmp_path / "p"))
    start = StartData(settings, "m1", "mach1", str(tmp_path))
    start.cache_dir.mkdir()
    agent_versions.write(start.cache_dir, Upgrade(UpgradeState.fell_back, "9.9", "", 0.0))
    refused: list[str] = []

    def cut(_place: object, _reason: str) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(chain_run, "refuse_boundary", cut)
        with pytest.raises(KeyboardInterrupt):
            launch.prepare(start)
    monkeypatch.setattr(chain_run, "refuse_boundary", lambda _, reason: refused.append(reason))
    launch.prepare(start)
    launch.prepare(start)
    assert len(refused) == 1 and "9.9" in refused[0]


def test_upgrade_interrupted_by_a_power_failure_before_the_switch_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_version(tmp_path / "agent", "9.9")
    settings = MinionSettings(
        cache_dir=str(tmp_path / "c"),
        pki_dir=str(tmp_path / "p"),
        agent_dir=str(tmp_path / "agent"),
    )
    start = StartData(settings, "m1", "mach1", str(tmp_path))
    start.cache_dir.mkdir()
    agent_versions.ask(tmp_path / "agent", start.cache_dir, "9.9")

    def cut(_agent_dir: Path, _version: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(agent_versions, "switch", cut)
        with pytest.raises(KeyboardInterrupt):
            agent_versions.begin_switch(tmp_path / "agent", start.cache_dir)
    refused: list[str] = []
    monkeypatch.setattr(chain_run, "refuse_boundary", lambda _, reason: refused.append(reason))
    launch.prepare(start)
    found = agent_versions.read(start.cache_dir)
    assert found is not None and found.state is UpgradeState.fell_back
    assert len(refused) == 1 and "9.9" in refused[0]


def test_only_installed_versions_become_current(tmp_path: Path) -> None:
    for name in ("9.9", "../../x", ""):
        with pytest.raises(NotFoundError):
            agent_versions.ask(tmp_path, tmp_path, name)
    with pytest.raises(NotFoundError):
        agent_versions.switch(tmp_path, "9.9")


def test_wrong_agent_confirms_nothing(tmp_path: Path) -> None:
    agent_versions.write(tmp_path, Upgrade(UpgradeState.switching, "9.9", "", 0.0))
    assert not upgrade.confirm(tmp_path, "s")
    mine = Upgrade(UpgradeState.switching, catena.__version__, "", 0.0)
    agent_versions.write(tmp_path, mine)
    assert upgrade.confirm(tmp_path, "s") and not upgrade.confirm(tmp_path, "s")
    found = agent_versions.read(tmp_path)
    assert found is not None and (found.state, found.session) == (UpgradeState.confirmed, "s")


def test_damaged_record_is_none(tmp_path: Path) -> None:
    (tmp_path / agent_versions.STATE_FILE).write_text("{")
    assert agent_versions.read(tmp_path) is None and not upgrade.wants_restart(tmp_path)


def test_guard_ends_an_agent_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVOCATION_ID", "a service manager restarts it")
    a_version(tmp_path, "1.1")
    agent_versions.write(tmp_path, Upgrade(UpgradeState.asked, "1.1", "", 0.0))
    agent_versions.begin_switch(tmp_path, tmp_path)
    hangs = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    ref = processes.reference(hangs.pid, read_boot_id())
    assert ref is not None
    ended = upgrade.guard(str(tmp_path), tmp_path, tmp_path, ref, time.time() + 0.2)
    assert ended == "fell_back"
    assert hangs.wait(60) != 0
    assert agent_versions.current(tmp_path) == ""
    found = agent_versions.read(tmp_path)
    assert found is not None and "in time" in found.reason


def test_guard_ignores_a_confirmed_agent(tmp_path: Path) -> None:
    agent_versions.write(tmp_path, Upgrade(UpgradeState.confirmed, "1.1", "", 0.0))
    me = processes.reference(1, "boot")
    assert me is not None
    assert upgrade.guard("", tmp_path, tmp_path, me, time.time() + 60) == "confirmed"


@pytest.mark.parametrize("entry", ["../evil.py", "/etc/evil.py", "catena/../../evil.py"])
def test_wheel_can_not_write_outside_its_folder(tmp_path: Path, entry: str) -> None:
    wheel = tmp_path / "catena-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(entry, "x")
    with pytest.raises(BadWheelError, match="leaves the folder"):
        agent_versions.install(tmp_path / "agent", [wheel])
    assert not list(tmp_path.rglob("evil.py"))
    assert agent_versions.installed(tmp_path / "agent") == []


@pytest.mark.parametrize("name", ["salt-1.0-py3-none-any.whl", "catena.whl", "catena-.whl", "x"])
def test_other_files_are_no_wheels_of_ours(name: str) -> None:
    with pytest.raises(BadWheelError):
        agent_versions.version_of_wheel(name)

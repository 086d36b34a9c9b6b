from __future__ import annotations

import grp
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from catena.core.checkup import Level
from catena.core.config.master import MasterSettings
from catena.master.process import cli_access


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with the users anna and joe and the group operators, which anna is in."""
    users = {"anna": 1000, "joe": 1001}
    group = SimpleNamespace(gr_name="operators", gr_gid=700, gr_mem=["anna"])

    def user(name: str) -> SimpleNamespace:
        return SimpleNamespace(pw_name=name, pw_uid=users[name], pw_gid=users[name])

    monkeypatch.setattr(pwd, "getpwnam", user)
    monkeypatch.setattr(grp, "getgrnam", lambda name: {"operators": group}[name])


def found(tmp_path: Path, *users: str, group: str = "operators") -> list[tuple[Level, str, str]]:
    settings = MasterSettings(cli_users=list(users), cli_group=group, run_dir=str(tmp_path))
    return [(f.level, f.what, f.advice) for f in cli_access.findings(settings)]


def test_access_check_reports_nothing_without_users(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def test_access_check_accepts_a_group_member(tmp_path: Path) -> None:
    assert [level for level, _, _ in found(tmp_path, "anna")] == [Level.ok]


def test_access_check_names_each_missing_thing_and_its_fix(tmp_path: Path) -> None:
    ((level, what, advice),) = found(tmp_path, "anna", "joe")
    assert (level, what) == (Level.warning, "joe is not a member of the group operators")
    assert advice.startswith("usermod -aG operators joe")
    ((_, what, _),) = found(tmp_path, "max")
    assert what == "this host has no user 'max'"
    ((_, what, advice),) = found(tmp_path, "anna", group="wheel2")
    assert what == "this host has no group 'wheel2' (setting cli_group)"
    assert advice.startswith("groupadd --system wheel2")


def test_socket_of_an_earlier_configuration_asks_for_a_restart(tmp_path: Path) -> None:
    (tmp_path / "master.sock").touch(mode=0o600)
    said = [what for _, what, _ in found(tmp_path, "anna")]
    assert f"{tmp_path / 'master.sock'} is not open to the group operators" in said


def test_socket_stays_private_without_the_group(caplog: pytest.LogCaptureFixture) -> None:
    settings = MasterSettings(cli_users=["anna"], cli_group="wheel2")
    assert cli_access.socket_group(settings) is None
    assert "groupadd --system wheel2" in caplog.text
    assert cli_access.socket_group(MasterSettings()) is None

from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.config.folders import placed
from catena.core.config.minion import MinionSettings
from catena.core.errors import ConfigError
from catena.core.ids import BadNameError
from catena.minion.start import blob, configure, identity
from catena.minion.start.blob import StartData


def write(folder: Path, text: str) -> Path:
    (folder / "minion").write_text(text)
    return folder


def test_folders_of_another_configuration_lie_beside_it(tmp_path: Path) -> None:
    settings = configure.read(write(tmp_path, "id: a\npki_dir: /keys\n")).settings
    assert settings.cache_dir == str(tmp_path / "state" / "minion" / "cache")
    assert settings.pki_dir == "/keys"
    assert settings.log_file == str(tmp_path / "state" / "minion" / "log")


def test_root_dir_precedes_only_default_folders(tmp_path: Path) -> None:
    settings = configure.read(write(tmp_path, "root_dir: /r\nrun_dir: /run/x\n")).settings
    assert settings.cache_dir == "/r/var/cache/catena/minion"
    assert settings.run_dir == "/run/x"


def test_packaged_agent_has_the_usual_folders() -> None:
    settings = placed(MinionSettings(), (), Path("/etc/catena"), "minion")
    assert settings == MinionSettings(gpg_keydir="/etc/catena/gpgkeys")


def test_wrong_setting_is_refused_with_the_right_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'master'"):
        configure.read(write(tmp_path, "mastre: x\n"))


def test_missing_configuration_is_an_empty_one(tmp_path: Path) -> None:
    assert configure.read(tmp_path).settings.master == ""


def test_options_of_modules_reach_the_start_record(tmp_path: Path) -> None:
    configured = configure.read(write(tmp_path, "id: a\nmachine_id: b\nmysql.host: db\n"))
    start = configure.start_of(configured, tmp_path)
    assert (start.id, start.machine_id, start.module_options) == ("a", "b", {"mysql.host": "db"})


def test_machine_id_is_made_once_and_kept(tmp_path: Path) -> None:
    settings = MinionSettings(cache_dir=str(tmp_path / "c"))
    none = str(tmp_path / "none")
    made = identity.machine_id(settings, none)
    assert len(made) == 32 and identity.machine_id(settings, none) == made


@pytest.mark.parametrize("text", ["", "uninitialized\n"])
def test_image_without_a_machine_id_gets_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "machine-id"
    path.write_text(text)
    settings = MinionSettings(cache_dir=str(tmp_path / "c"))
    assert len(identity.machine_id(settings, str(path))) == 32
    path.write_text("abcd\n")
    assert identity.machine_id(settings, str(path)) == "abcd"


def test_configured_id_wins_and_is_checked() -> None:
    assert identity.machine_id(MinionSettings(machine_id="m-1")) == "m-1"
    with pytest.raises(BadNameError):
        identity.minion_id(MinionSettings(id="../x"))
    assert identity.minion_id(MinionSettings(id="web1.example")) == "web1.example"


def test_start_record_comes_back_as_it_was() -> None:
    start = StartData(
        MinionSettings(id="a"), "a", "b", "/c", {"os": "ä"}, {"x.y": 1}, {"n": "c"}, 7
    )
    assert blob.read(blob.write(start)) == start

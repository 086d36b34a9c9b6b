"""Settings of Salt that are refused, or that nothing here carries out yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.cli.commands import run
from catena.core.config.master import SALT_KEYS, MasterSettings
from catena.core.config.minion import SALT_KEYS as MINION_KEYS
from catena.core.config.minion import MinionSettings
from catena.core.config.schema import load
from catena.core.errors import ConfigError


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gitfs_remotes", ["https://git.invalid/states.git"]),
        ("fileserver_backend", ["git"]),
        ("fileserver_backend", ["roots", "gitfs"]),
        ("fileserver_backend", "git"),
    ],
)
def test_master_refuses_file_servers_that_are_not_built_in(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{key}: files come from local folders"):
        load(MasterSettings, {key: value}, SALT_KEYS)
    if key in MINION_KEYS:
        load(MinionSettings, {key: value}, MINION_KEYS)


@pytest.mark.parametrize(
    ("key", "value"),
    [("gitfs_remotes", []), ("fileserver_backend", ["roots"]), ("fileserver_backend", "roots")],
)
def test_master_accepts_the_built_in_file_server(key: str, value: object) -> None:
    _, loaded = load(MasterSettings, {key: value}, SALT_KEYS)
    assert loaded.without_effect == (key,)


@pytest.mark.parametrize("key", ["schedule", "external_auth", "publisher_acl"])
def test_setting_of_an_unimplemented_feature_fails_config_check_and_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    (tmp_path / "master").write_text(f"{key}: {{x: {{}}}}\n")
    assert run(["-c", str(tmp_path), "config", "check", "master"]) == 1
    said = capsys.readouterr().err
    assert f"{key}: no" in said
    assert "master: ok" not in said
    run(["-c", str(tmp_path), "doctor", "master"])
    assert f"warning  configuration  {key}: no" in capsys.readouterr().out
    (tmp_path / "master").write_text(f"{key}: {{}}\n")
    assert run(["-c", str(tmp_path), "config", "check", "master"]) == 0


@pytest.mark.parametrize("key", ["state_output_pct", "state_tabular", "state_output_diff"])
def test_salts_settings_for_the_display_of_states_are_accepted(key: str) -> None:
    _, of_master = load(MasterSettings, {key: True}, SALT_KEYS)
    _, of_minion = load(MinionSettings, {key: True}, MINION_KEYS)
    assert of_master.without_effect == of_minion.without_effect == (key,)

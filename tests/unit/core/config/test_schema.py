from __future__ import annotations

from typing import Any, List

import pytest

from catena.core.config.master import MasterSettings
from catena.core.config.minion import SALT_KEYS, MinionSettings
from catena.core.config.schema import load, option
from catena.core.errors import ConfigError
from catena.core.frozen import dataclass, fields


@dataclass(frozen=True)
class Settings:
    port: int = option(1, "p", low=1, high=9)
    mode: str = option("a", "m", choices=("a", "b"))
    name: str = option("", "n", grammar="[a-z]+")
    items: List[str] = option([], "i")


def read(data: dict[str, Any]) -> Settings:
    return load(Settings, data, frozenset({"ipc_mode"}))[0]


def test_given_settings_replace_defaults() -> None:
    assert read({"port": 3, "items": ["x"]}) == Settings(port=3, items=["x"])


def test_lists_are_not_shared_between_records() -> None:
    assert Settings().items is not Settings().items


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"prot": 1}, "unknown setting 'prot'; did you mean 'port'?"),
        ({"port": 0}, "port: 0 is below 1"),
        ({"port": 10}, "port: 10 is above 9"),
        ({"port": "3"}, "port: expected int, got str"),
        ({"mode": "c"}, "mode: unknown value 'c' (one of a, b)"),
        ({"mode": 5}, "mode: expected str, got int; put it in quotes"),
        (
            {"items": "x"},
            "items: expected a list, got str; write it as [value] or as lines that begin with -",
        ),
        ({"name": "A"}, "name: 'A' does not match [a-z]+"),
        ({1: 2}, "unknown setting '1'"),
    ],
)
def test_wrong_settings_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(data)
    assert str(caught.value) == message


def test_salt_key_without_effect_is_listed_and_module_option_is_kept() -> None:
    _, loaded = load(Settings, {"ipc_mode": "tcp", "mysql.host": "h"}, frozenset({"ipc_mode"}))
    assert loaded.without_effect == ("ipc_mode",)
    assert loaded.module_options == {"mysql.host": "h"}


def test_unknown_key_that_resembles_no_setting_is_kept_and_listed() -> None:
    _, loaded = load(Settings, {"site_of": "x", "a.b": 1}, frozenset())
    assert loaded.module_options == {"a.b": 1, "site_of": "x"}
    assert loaded.free_keys == ("site_of",)


@pytest.mark.parametrize("kind", [MinionSettings, MasterSettings])
def test_every_setting_has_help_and_a_default_within_its_own_rule(kind: type) -> None:
    found = fields(kind)
    assert all(f.metadata["help"].endswith(".") for f in found)
    defaults = {f.name: getattr(kind(), f.name) for f in found}
    assert load(kind, defaults, frozenset())[0] == kind()


def test_no_setting_is_listed_as_without_effect() -> None:
    assert not SALT_KEYS & {f.name for f in fields(MinionSettings)}


@pytest.mark.parametrize("key", ["ext_pillar", "master_tops"])
def test_external_pillar_and_tops_are_refused_with_advice(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: external .* would miss .* or remove the sett"):
        read({key: [{"cmd_yaml": "x"}]})


def test_refused_setting_is_accepted_when_it_is_empty() -> None:
    assert read({"ext_pillar": [], "master_tops": {}}) == Settings()

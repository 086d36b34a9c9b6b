"""apache_module, apache_site and apache_conf with doubles of a2enmod and its like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import FunctionMark, Registry
from catena.modules import apache as module
from catena.modules.shared import programs
from catena.modules.shared.command.run import Ran
from catena.states import apache_conf, apache_module, apache_site
from tests.unit.states.conftest import MakeWorld

FOLDERS = {"mod": ("mods", ".load"), "site": ("sites", ".conf"), "conf": ("conf", ".conf")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, _ in FOLDERS.values():
        (tmp_path / f"{name}-enabled").mkdir()

    def look(context: Any, words: list[str], package: str) -> Ran:
        assert package == "apache2"
        assert words[1:-1] == ["-q", "--"]
        verb, name = words[0], words[-1]
        if name == "broken":
            return Ran(1, 2, "", "Can't locate perl")
        if name == "missing":
            return Ran(1, 1, "", "ERROR: Module missing does not exist!")
        on = verb.startswith("a2en")
        kind, end = FOLDERS[verb[4 if on else 5 :]]
        link = tmp_path / f"{kind}-enabled" / (name if "." in name else name + end)
        link.symlink_to("../none") if on else link.unlink()
        return Ran(1, 0, "", "")

    monkeypatch.setattr(programs, "look", look)
    monkeypatch.setattr(module, "_FOLDER", tmp_path)
    return tmp_path


@pytest.fixture
def context(world: MakeWorld, folder: Path) -> Context:
    return world().context.with_(functions=Registry("function", modules.INDEX, FunctionMark))


@pytest.mark.parametrize("states", [apache_module, apache_site, apache_conf])
def test_thing_is_enabled_and_disabled_once(context: Context, states: Any) -> None:
    look = context.with_(test=True)
    assert states.enabled(look, "own").result is None
    assert states.enabled(context, "own").changes == {"old": None, "new": "own"}
    assert states.enabled(context, "own").comment == "own already enabled."
    assert states.disabled(look, "own").result is None
    assert states.disabled(context, "own").changes == {"old": "own", "new": None}
    assert states.disabled(context, "own").comment == "own already disabled."


def test_default_site_has_a_number(context: Context, folder: Path) -> None:
    (folder / "sites-enabled" / "000-default.conf").symlink_to("x")
    assert apache_site.enabled(context, "default").changes == {}


def test_name_may_have_its_ending(context: Context, folder: Path) -> None:
    (folder / "mods-enabled" / "own.conf").symlink_to("x")
    assert apache_module.enabled(context, "own.conf").changes == {}
    assert apache_module.enabled(context, "own").changes


def test_failures_have_a_reason(context: Context) -> None:
    told = "Failed to enable missing Apache module (Mod missing Not found)"
    assert apache_module.enabled(context, "missing").comment == told
    assert "perl" in apache_site.enabled(context, "broken").comment
    assert apache_module.enabled(context, "../x").result is False
    with pytest.raises(UsageError):
        context.call("apache.a2enmod", "--help")
    with pytest.raises(CommandExecutionError, match="perl"):
        context.call("apache.a2dismod", "broken")

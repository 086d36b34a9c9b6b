"""sysfs.present with the kernel's attributes in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.plugins import FunctionMark, Registry
from catena.modules import sysfs as module
from catena.states import sysfs
from tests.unit.states.conftest import MakeWorld


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sys"
    (folder / "block" / "sda").mkdir(parents=True)
    (folder / "block" / "sda" / "scheduler").write_text("[none] mq-deadline\n")
    (folder / "block" / "sda" / "rotational").write_text("1\n")
    (tmp_path / "secret").write_text("1\n")
    (folder / "link").symlink_to(tmp_path / "secret")
    monkeypatch.setattr(module, "_ROOT", folder)
    return folder


@pytest.fixture
def context(world: MakeWorld) -> Context:
    return world().context.with_(functions=Registry("function", modules.INDEX, FunctionMark))


def test_attribute_is_set_once(root: Path, context: Context) -> None:
    name, path = "block/sda/rotational", root / "block" / "sda" / "rotational"
    tried = sysfs.present(context.with_(test=True), name, 0)
    told = f"SysFS attribute {name} set to be changed."
    assert (tried.result, tried.comment, path.read_text()) == (None, told, "1\n")
    found = sysfs.present(context, name, "0")
    assert (found.result, dict(found.changes), path.read_text()) == (True, {name: "0"}, "0\n")
    again = sysfs.present(context, name, 0)
    assert (again.result, dict(again.changes)) == (True, {})


def test_choice_in_brackets_is_the_value(root: Path, context: Context) -> None:
    assert sysfs.present(context, "block/sda/scheduler", "none").changes == {}
    found = context.call("sysfs.read", "block/sda")
    assert found == {"rotational": 1, "scheduler": "[none] mq-deadline"}


def test_other_places_and_folders_are_refused(root: Path, context: Context) -> None:
    for name in ("link", "../secret", "block/none", "block/sda"):
        found = sysfs.present(context, name, 0)
        assert found.result is False
        assert name in found.comment
    assert (root.parent / "secret").read_text() == "1\n"

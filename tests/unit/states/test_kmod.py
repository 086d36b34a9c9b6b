"""kmod.* with the files of the kernel in a folder and a double of modprobe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import FunctionMark, Registry
from catena.modules import kmod as module
from catena.modules.shared import programs
from catena.states import kmod
from tests.unit.states.conftest import MakeWorld


class Kernel:
    """Files that describe the loaded modules, and modprobe."""

    def __init__(self, folder: Path) -> None:
        self.loaded = folder / "modules"
        self.kept = folder / "etc-modules"
        self.managed = folder / "load.d" / "managed.conf"
        self.calls: list[list[str]] = []
        self.loaded.write_text("")
        self.load("old_one")

    def load(self, name: str) -> None:
        with self.loaded.open("a") as stream:
            stream.write(f"{name} 16384 0 - Live 0x0\n")

    def modprobe(self, context: Any, words: list[str], package: str) -> str:
        assert package == "kmod"
        self.calls.append(words)
        name = words[-1].replace("-", "_")
        if name == "broken":
            raise CommandExecutionError("modprobe failed with return code 1: no such device")
        lines = self.loaded.read_text().splitlines(keepends=True)
        if words[1] == "-r":
            self.loaded.write_text("".join(one for one in lines if one.split()[0] != name))
        else:
            for one in ("helper", name) if name == "new_one" else (name,):
                self.load(one)
        return ""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(tmp_path)
    folder = tmp_path / "lib" / os.uname().release
    folder.mkdir(parents=True)
    for name in ("old-one", "new-one", "helper", "broken"):
        (folder / f"{name}.ko.xz").touch()
    (folder / "modules.builtin").write_text("kernel/fs/ext4.ko\n")
    monkeypatch.setattr(module, "_LOADED", made.loaded)
    monkeypatch.setattr(module, "_CONFIGURED", made.kept)
    monkeypatch.setattr(module, "_MANAGED", made.managed)
    monkeypatch.setattr(module, "_folder", lambda: folder)
    monkeypatch.setattr(programs, "need", made.modprobe)
    return made


@pytest.fixture
def context(world: MakeWorld) -> Context:
    made = world(grains={"systemd": {"version": "252"}}).context
    return made.with_(functions=Registry("function", modules.INDEX, FunctionMark))


def test_module_is_loaded_once(kernel: Kernel, context: Context) -> None:
    found = kmod.present(context, "new-one")
    assert found.changes == {"helper": "loaded", "new_one": "loaded"}
    assert found.comment == "Loaded kernel module new-one"
    again = kmod.present(context, "new-one")
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "Kernel module new-one is already present"
    assert kernel.calls == [["modprobe", "--", "new-one"]]
    assert not kernel.managed.exists()


def test_loaded_module_is_made_persistent_once(kernel: Kernel, context: Context) -> None:
    kernel.kept.write_text("# comment\n")
    found = kmod.present(context, "old_one", persist=True)
    assert found.changes == {"old_one": "loaded"}
    assert kernel.managed.read_text() == "old_one\n"
    assert kmod.present(context, "old_one", persist=True).changes == {}
    assert kernel.kept.read_text() == "# comment\n"


def test_module_is_removed_and_its_line_becomes_a_comment(
    kernel: Kernel, context: Context
) -> None:
    kernel.kept.write_text("# kept\nold-one option=1\nother\n")
    found = kmod.absent(context, "old_one", persist=True)
    assert found.changes == {"old_one": "removed"}
    assert found.comment == "Removed kernel module old_one"
    assert kernel.kept.read_text() == "# kept\n#old-one option=1\nother\n"
    again = kmod.absent(context, "old_one", persist=True)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "Kernel module old_one is already absent"
    assert len(kernel.calls) == 1


def test_commented_line_is_used_again(kernel: Kernel, context: Context) -> None:
    kmod.present(context, "old_one", persist=True)
    kmod.absent(context, "old_one", persist=True)
    assert kernel.managed.read_text() == "#old_one\n"
    kmod.present(context, "old_one", persist=True)
    assert kernel.managed.read_text() == "old_one\n"
    kmod.absent(context, "old_one", persist=True, comment=False)
    assert kernel.managed.read_text() == ""


def test_test_mode_reports_and_changes_nothing(kernel: Kernel, context: Context) -> None:
    context = context.with_(test=True)
    found = kmod.present(context, "x", mods=["old_one", "new_one", "helper"], persist=False)
    assert (found.result, found.changes) == (None, {})
    assert found.comment == (
        "Kernel module old_one is already present\n"
        "Kernel modules new_one, helper are set to be loaded"
    )
    found = kmod.absent(context, "old_one", persist=True)
    assert found.result is None
    assert found.comment == "Kernel module old_one is set to be removed"
    assert kernel.calls == []
    assert not kernel.managed.exists()


def test_several_modules_report_each_result(kernel: Kernel, context: Context) -> None:
    found = kmod.present(context, "x", mods=["new_one", "helper", "broken", "none"])
    assert found.result is False
    assert found.comment == (
        "Kernel module none is unavailable\n"
        "Loaded kernel modules new_one, helper\n"
        "Failed to load kernel module broken: modprobe failed with return code 1: no such device"
    )
    assert found.changes == {"new_one": "loaded", "helper": "loaded"}


def test_module_that_is_built_in_is_present(kernel: Kernel, context: Context) -> None:
    assert kmod.present(context, "ext4").changes == {}
    assert kmod.present(context, "ext4").result is True
    assert kernel.calls == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": "-f"}, "'-f' can't be the name of a module"),
        ({"name": "a/b"}, "can't be the name of a module"),
        ({"name": "x", "mods": "a"}, "mods must be a list, not str"),
    ],
)
def test_bad_input_fails(kernel: Kernel, context: Context, arguments: Any, told: str) -> None:
    for state in (kmod.present, kmod.absent):
        found = state(context, **arguments)
        assert found.result is False
        assert told in found.comment

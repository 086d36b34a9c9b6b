"""lvm.* with doubles of LVM's programs, which need a device-mapper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import FunctionMark, Registry
from catena.modules import lvm as module
from catena.modules.shared import programs
from catena.modules.shared.command.run import Ran
from catena.states import lvm
from tests.unit.states.conftest import MakeWorld

EXTENT = 8192  # sectors of 512 bytes: 4 MiB


class Volumes:
    """The logical volumes of the group vg, by name: number of extents."""

    def __init__(self) -> None:
        self.extents: dict[str, int] = {}
        self.calls: list[list[str]] = []
        self.error = ""

    def look(self, context: Any, words: list[str], package: str, **options: Any) -> Ran:
        assert package == "lvm2"
        rows = [
            f"  /dev/vg/{name}:vg:3:1:-1:0:{count * EXTENT}:{count}:-1:0:-1:-1:-1"
            for name, count in self.extents.items()
        ]
        text = "\n".join(rows) if words[0] == "lvdisplay" else ""
        return Ran(0, 0, text, "")

    def need(self, context: Any, words: list[str], package: str, **options: Any) -> str:
        self.calls.append(words)
        if self.error:
            raise CommandExecutionError(self.error)
        if words[0] == "lvremove":
            del self.extents[words[-1].partition("/")[2]]
        elif "-L" in words:
            megabytes = lvm.bytes_of(words[words.index("-L") + 1]) / 2**20
            name = words[words.index("-n") + 1] if "-n" in words else words[-1].split("/")[-1]
            self.extents[name] = -int(-megabytes // 4)
        elif "-l" in words:
            name = words[words.index("-n") + 1] if "-n" in words else words[-1].split("/")[-1]
            count = words[words.index("-l") + 1]
            self.extents[name] = int(count) if count.isdigit() else 100
        return ""


@pytest.fixture
def volumes(monkeypatch: pytest.MonkeyPatch) -> Volumes:
    made = Volumes()
    monkeypatch.setattr(programs, "look", made.look)
    monkeypatch.setattr(programs, "need", made.need)
    return made


@pytest.fixture
def context(world: MakeWorld) -> Context:
    return world().context.with_(functions=Registry("function", modules.INDEX, FunctionMark))


def test_volume_is_created_once(volumes: Volumes, context: Context) -> None:
    wanted: dict[str, Any] = {"vgname": "vg", "size": "10M", "stripes": 2}
    tried = lvm.lv_present(context.with_(test=True), "data", **wanted)
    assert (tried.result, tried.comment) == (None, "Logical Volume data is set to be created")
    assert volumes.calls == []
    found = lvm.lv_present(context, "data", **wanted)
    assert (found.result, found.comment) == (True, "Created Logical Volume data")
    words = ["lvcreate", "--stripes=2", "-qq", "-n", "data", "-L", "10M", "vg"]
    assert volumes.calls == [words]
    assert "/dev/vg/data" in found.changes["created"]
    # LVM has rounded 10 MB up to three extents of 4 MB.
    again = lvm.lv_present(context, "data", **wanted)
    assert (again.result, dict(again.changes)) == (True, {})
    assert again.comment == "Logical Volume data already present"
    assert len(volumes.calls) == 1


def test_volume_grows_and_shrinks_only_by_force(volumes: Volumes, context: Context) -> None:
    volumes.extents["data"] = 4
    tried = lvm.lv_present(context.with_(test=True), "data", vgname="vg", size="20M")
    assert (tried.result, tried.comment) == (None, "Logical Volume data is set to be resized")
    grown = lvm.lv_present(context, "data", vgname="vg", size="20M", resizefs=True)
    assert volumes.calls == [["lvresize", "-qq", "--resizefs", "-L", "20M", "/dev/vg/data"]]
    assert grown.comment == "Resized Logical Volume data"
    less = lvm.lv_present(context, "data", vgname="vg", extents=2)
    assert less.comment == "To reduce a Logical Volume option 'force' must be True."
    assert len(volumes.calls) == 1
    forced = lvm.lv_present(context, "data", vgname="vg", extents=2, force=True)
    assert forced.result is True
    assert volumes.calls[1] == ["lvresize", "--force", "-l", "2", "/dev/vg/data"]
    percent = lvm.lv_present(context, "data", vgname="vg", extents="50%VG")
    assert percent.comment == "Logical Volume data already present, 50%VG won't be resized."


def test_volume_is_removed_once(volumes: Volumes, context: Context) -> None:
    volumes.extents["data"] = 1
    tried = lvm.lv_absent(context.with_(test=True), "data", "vg")
    assert (tried.result, tried.comment) == (None, "Logical Volume data is set to be removed")
    found = lvm.lv_absent(context, "data", "vg")
    assert found.changes == {"removed": 'Logical volume "data" successfully removed'}
    assert volumes.calls == [["lvremove", "--yes", "vg/data"]]
    assert lvm.lv_absent(context, "data", "vg").comment == "Logical Volume data already absent"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"extents": "100%FREE"}, ["-n", "v", "-l", "100%FREE", "vg"]),
        ({"size": "1G", "thinpool": True}, ["--thinpool", "v", "-L", "1G", "vg"]),
        ({"size": "1G", "thinvolume": True}, ["--thin", "-n", "v", "-V", "1G", "vg"]),
        ({"size": 5, "snapshot": "o"}, ["-n", "v", "-L", "5", "-s", "vg/o"]),
    ],
)
def test_words_of_lvcreate(arguments: dict[str, Any], words: list[str]) -> None:
    assert module.create_words("v", "vg", **arguments) == words


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"size": 1, "extents": 1},
        {"size": 1, "thinpool": True, "thinvolume": True},
        {"extents": 1, "thinvolume": True},
        {"size": "--config=x"},
    ],
)
def test_contradictions_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        module.create_words("v", "vg", **arguments)


def test_failure_and_bad_size_are_told(volumes: Volumes, context: Context) -> None:
    volumes.error = "lvcreate failed with return code 5: insufficient free space"
    found = lvm.lv_present(context, "data", vgname="vg", size="10M")
    assert (found.result, dict(found.changes)) == (False, {})
    assert found.comment.endswith("insufficient free space")
    found = lvm.lv_present(context, "data", vgname="vg", size="big")
    assert found.comment.endswith("Size big is invalid.")
    found = lvm.lv_present(context, "data", size="1G")
    assert "set vgname" in found.comment


def test_unknown_option_is_ignored_with_a_warning(volumes: Volumes, context: Context) -> None:
    found = lvm.lv_present(context, "data", vgname="vg", size="8M", stripe=2)
    assert found.warnings == ("lvcreate has no option 'stripe'; it is ignored",)


@pytest.mark.parametrize(
    ("size", "found"),
    [(10, 10 * 2**20), ("2048s", 2**20), ("1.5GB", 1.5 * 2**30), ("1t", 2**40), ("7b", 7)],
)
def test_sizes_are_read(size: Any, found: float) -> None:
    assert lvm.bytes_of(size) == found


def test_missing_program_names_its_package(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "PATH", "/nowhere")
    call: Callable[..., Any] = lvm.pv_present
    found = call(context, "/dev/none")
    assert found.comment.endswith("not available on this host: install the package lvm2")

"""lvm.* with LVM itself on a loop device: volumes and groups, which need no device-mapper."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from tests.support.debian_roots import Root, overlay
from tests.support.mount_spaces import inside, needs_mounts

pytestmark = [
    needs_mounts,
    pytest.mark.container,
    pytest.mark.roots("bookworm", "bookworm-disks"),
]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    with overlay(tmp_path / "root", packages="disks") as made:
        yield made


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[list[str]]:
    """Yield two loop devices."""
    if not Path("/dev/loop-control").exists():
        pytest.skip("this host has no loop devices")
    found: list[str] = []
    try:
        for number in range(2):
            image = tmp_path / f"image{number}"
            with image.open("wb") as stream:
                stream.truncate(32 * 1024 * 1024)
            words = ["losetup", "--find", "--show", str(image)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no loop device: {done.stderr}")
            found.append(done.stdout.strip())
        yield found
    finally:
        for device in found:
            subprocess.run(["losetup", "--detach", device], check=True)


class Caller:
    """Applies states of LVM and keeps what people see of them."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def __call__(self, fun: str, *args: Any, test: bool = False, **more: Any) -> tuple[Any, ...]:
        state = self.context.states[f"lvm.{fun}"]
        found: StateResult = state.call(self.context.with_(test=test), *args, **more)
        return found.result, sorted(found.changes), found.comment


def test_volume_is_made_and_removed_once(context: Context, root: Root, devices: list[str]) -> None:
    call, device = Caller(context), devices[0]

    def work() -> list[Any]:
        return [
            call("pv_present", device, test=True),
            *(call("pv_present", device) for _ in range(2)),
            call("pv_present", "/dev/none"),
            *(call("pv_absent", device) for _ in range(2)),
        ]

    tried, made, again, missing, gone, same = inside(root.path, work)
    assert tried == (None, [], f"Physical Volume {device} is set to be created")
    assert made == (True, ["created"], f"Created Physical Volume {device}")
    assert again == (True, [], f"Physical Volume {device} already present")
    assert missing[0] is False
    assert "/dev/none does not exist" in missing[2]
    assert gone == (True, ["removed"], f"Removed Physical Volume {device}")
    assert same == (True, [], f"Physical Volume {device} does not exist")


def test_group_grows_and_goes(context: Context, root: Root, devices: list[str]) -> None:
    name, call = f"catena{Path(devices[0]).name}", Caller(context)

    def work() -> list[Any]:
        context.call("lvm.pvcreate", devices)
        return [
            call("vg_present", name, devices[:1], physicalextentsize="1m"),
            call("vg_present", name, devices[:1]),
            call("vg_present", name, devices, test=True),
            call("vg_present", name, ",".join(devices)),
            call("vg_present", name, devices),
            call("vg_present", name, ["/dev/none"]),
            context.call("lvm.vgdisplay", name)[name],
            *(call("vg_absent", name, test=test)[:2] for test in (True, False, False)),
        ]

    found = inside(root.path, work)
    first, second = devices
    made, again, tried, grown, same, wrong, group, *gone = found
    assert made == (True, ["created"], f"Created Volume Group {name}")
    present = f"Volume Group {name} already present\n{first} is part of Volume Group"
    assert again == (True, [], present)
    assert tried == (None, [], f"{present}\n{second} is set to be added to {name}")
    assert grown[:2] == (True, [second])
    assert same == (True, [], f"{present}\n{second} is part of Volume Group")
    assert wrong[0] is False
    assert wrong[2].endswith("pv /dev/none is not present")
    assert (group["Current Physical Volumes"], group["Physical Extent Size (kB)"]) == ("2", "1024")
    assert gone == [(None, []), (True, ["removed"]), (True, [])]


def test_volume_says_that_the_kernel_lacks_a_device_mapper(
    context: Context, root: Root, devices: list[str]
) -> None:
    if Path("/sys/class/misc/device-mapper").exists():
        pytest.skip("this host has a device-mapper")
    name = f"catena{Path(devices[0]).name}"

    def work() -> StateResult:
        context.states["lvm.vg_present"].call(context, name, devices[:1])
        found: StateResult = context.states["lvm.lv_present"].call(
            context, "data", vgname=name, size="4M"
        )
        return found

    found = inside(root.path, work)
    assert found.result is False
    assert "Check that device-mapper is available in the kernel." in found.comment

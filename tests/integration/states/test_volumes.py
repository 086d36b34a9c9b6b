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


def test_group_grows_and_goes(context: Context, root: Root, devices: list[str]) -> None:
    name = f"catena{Path(devices[0]).name}"

    def call(fun: str, *args: Any, test: bool = False, **more: Any) -> tuple[Any, ...]:
        state = context.states[f"lvm.{fun}"]
        found: StateResult = state.call(context.with_(test=test), *args, **more)
        return found.result, sorted(found.changes), found.comment

    def work() -> dict[str, Any]:
        found: dict[str, Any] = {"tried": call("pv_present", devices[0], test=True)}
        found["volumes"] = [call("pv_present", one) for one in (*devices, devices[0])]
        found["none"] = call("pv_present", "/dev/none")
        found["groups"] = [
            call("vg_present", name, devices[:1], physicalextentsize="1m"),
            call("vg_present", name, devices[:1]),
            call("vg_present", name, devices, test=True),
            call("vg_present", name, ",".join(devices)),
            call("vg_present", name, devices),
            call("vg_present", name, ["/dev/none"]),
        ]
        found["group"] = context.call("lvm.vgdisplay", name)[name]
        found["gone"] = [
            call("vg_absent", name, test=True),
            *(call("vg_absent", name) for _ in range(2)),
            *(call("pv_absent", devices[0]) for _ in range(2)),
        ]
        return found

    found = inside(root.path, work)
    first, second = devices
    assert found["tried"] == (None, [], f"Physical Volume {first} is set to be created")
    created = f"Created Physical Volume {first}"
    assert found["volumes"][0] == (True, ["created"], created)
    assert found["volumes"][2] == (True, [], f"Physical Volume {first} already present")
    assert found["none"][0] is False
    assert "/dev/none does not exist" in found["none"][2]
    made, again, tried, grown, same, wrong = found["groups"]
    assert made == (True, ["created"], f"Created Volume Group {name}")
    present = f"Volume Group {name} already present\n{first} is part of Volume Group"
    assert again == (True, [], present)
    assert tried == (None, [], f"{present}\n{second} is set to be added to {name}")
    assert grown[:2] == (True, [second])
    assert same == (True, [], f"{present}\n{second} is part of Volume Group")
    assert wrong[0] is False
    assert wrong[2].endswith("pv /dev/none is not present")
    group = found["group"]
    assert (group["Current Physical Volumes"], group["Physical Extent Size (kB)"]) == ("2", "1024")
    assert [row[0] for row in found["gone"]] == [None, True, True, True, True]
    assert [row[1] for row in found["gone"]] == [[], ["removed"], [], ["removed"], []]


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

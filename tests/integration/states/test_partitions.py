"""partition.* with parted on a loop device."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CatenaError
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
def device(tmp_path: Path) -> Iterator[str]:
    """Yield a loop device of 32 MB."""
    image = tmp_path / "image"
    with image.open("wb") as stream:
        stream.truncate(32 * 1024 * 1024)
    words = ["losetup", "--find", "--show", str(image)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device: {done.stderr}")
    name = done.stdout.strip()
    try:
        yield name
    finally:
        subprocess.run(["losetup", "--detach", name], check=True)


def test_table_is_made_changed_and_listed(context: Context, root: Root, device: str) -> None:
    def call(fun: str, *args: Any) -> Any:
        return context.call(f"partition.{fun}", device, *args)

    def work() -> list[Any]:
        call("mklabel", "gpt")
        call("mkpart", "data", "ext4", "1MiB", "16MiB")
        call("mkpart", "more", None, "16MiB", "100%")
        call("set", 1, "lvm", "on")
        call("name", 2, "other")
        found = [call("list", "MiB"), call("align_check", "optimal", 1)]
        call("rm", 2)
        return [*found, call("list"), context.call("partition.exists", device)]

    table, aligned, after, there = inside(root.path, work)
    assert (table["info"]["disk"], table["info"]["partition table"]) == (device, "gpt")
    first, second = table["partitions"]["1"], table["partitions"]["2"]
    assert (first["start"], first["end"], first["flags"]) == ("1.00MiB", "16.0MiB", "lvm")
    assert (first["name"], second["name"]) == ("data", "other")
    assert (aligned, list(after["partitions"]), there) == (True, ["1"], True)


def test_wrong_arguments_are_refused(context: Context, root: Root, device: str) -> None:
    def told(fun: str, *args: Any) -> str:
        try:
            return str(context.call(f"partition.{fun}", *args))
        except CatenaError as problem:
            return str(problem)

    def work() -> list[str]:
        return [
            told("list", device),
            told("list", "/etc/passwd"),
            told("list", device, "miles"),
            told("mklabel", device, "-s"),
            told("mkpart", device, "primary", "ext4", "here", "100%"),
            told("set", device, 1, "boot", "maybe"),
            told("rm", device, "all"),
            told("mkfs", device, "../../bin/sh"),
        ]

    found = inside(root.path, work)
    assert "unrecognised disk label" in found[0]
    assert found[1] == "/etc/passwd is not a block device"
    assert "unit: 'miles' is none of" in found[2]
    assert found[3] == "label_type: '-s' makes no sense"
    assert found[4] == "start: 'here' is no place on a disk, as 1MiB or 100%"
    assert found[5] == "Invalid state passed to partition.set: it must be on or off"
    assert found[6] == "'all' is not the number of a partition"
    assert found[7] == "Invalid fs_type: ../../bin/sh"

"""acl.* and blockdev.* with the real programs in a Debian root."""

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


class Caller:
    """Applies states and keeps what people see of them."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def __call__(self, fun: str, *args: Any, test: bool = False, **more: Any) -> tuple[Any, ...]:
        state = self.context.states[fun]
        found: StateResult = state.call(self.context.with_(test=test), *args, **more)
        return found.result, dict(found.changes), found.comment


@pytest.fixture
def call(context: Context) -> Caller:
    return Caller(context)


def tree() -> None:
    Path("/t/sub").mkdir(parents=True)
    Path("/t/a file").touch(mode=0o640)
    Path("/t/sub/program").touch(mode=0o750)


def test_entry_is_added_changed_and_removed_once(call: Caller, root: Root) -> None:
    def work() -> list[Any]:
        tree()
        acl = ("/t/a file", "user", "daemon")
        return [
            call("acl.present", *acl, "rw", test=True),
            *(call("acl.present", *acl, "rw") for _ in range(2)),
            *(call("acl.present", *acl, "r") for _ in range(2)),
            call("acl.present", *acl, "r", test=True),
            call("acl.absent", *acl, test=True),
            *(call("acl.absent", *acl) for _ in range(2)),
        ]

    found = inside(root.path, work)
    new = {"acl_name": "daemon", "acl_type": "user", "perms": "rw"}
    same: Any = (True, {}, "Permissions are in the desired state")
    told = "New permissions will be applied for daemon: rw"
    assert found[0] == (None, {"new": new}, told)
    assert found[1] == (True, {"new": new}, "Applied new permissions for daemon")
    assert found[2] == same
    changes = {"new": {**new, "perms": "r"}, "old": {**new, "perms": "rw-"}}
    assert found[3] == (True, changes, "Updated permissions for daemon")
    assert found[4] == found[5] == same
    assert found[6] == (None, {}, "Removing permissions")
    assert found[7][::2] == (True, "Removing permissions")
    assert found[8] == same


def test_entries_below_a_folder_and_for_new_files(call: Caller, root: Root) -> None:
    def work() -> list[Any]:
        tree()
        found = []
        for kind, perms in (("group", "rX"), ("default:group", "rwx")):
            words = ("/t", kind, "daemon", perms)
            found += [call("acl.present", *words, recurse=True) for _ in range(2)]
        Path("/t/sub/later").touch()
        lists = call.context.call("acl.getfacl", "/t", recursive=True)
        return [
            [row[:2] for row in found],
            {path: row["group"][-1] for path, row in lists.items()},
            call("acl.absent", "/t", "d:group", "daemon", recurse=True)[0],
            "defaults" in call.context.call("acl.getfacl", "/t/sub")["/t/sub"],
        ]

    rows, groups, removed, left = inside(root.path, work)
    assert [row[0] for row in rows] == [True] * 4
    assert (bool(rows[0][1]), rows[1][1], bool(rows[2][1]), rows[3][1]) == (True, {}, True, {})
    octals = {path: row["daemon"]["octal"] for path, row in groups.items()}
    assert octals == {"/t": 5, "/t/a file": 4, "/t/sub": 5, "/t/sub/later": 7, "/t/sub/program": 5}
    assert removed is True
    assert left is True  # the entries of owner, group and others stay


def test_lists_and_wrong_arguments(call: Caller, root: Root) -> None:
    def work() -> list[Any]:
        tree()
        names = ["daemon", "bin"]
        return [
            *(call("acl.list_present", "/t", "user", names, "rx") for _ in range(2)),
            *(call("acl.list_absent", "/t", "user", names) for _ in range(2)),
            call("acl.present", "/none", "user", "bin", "r"),
            call("acl.present", "/t", "usr", "bin", "r"),
            call("acl.present", "/t", "user", "bin", "all"),
            call("acl.present", "/t", "user", "nobody-here", "r"),
        ]

    found = inside(root.path, work)
    assert found[0][2] == "Applied new permissions for daemon, bin"
    assert found[1][1:] == ({}, "Permissions are in the desired state")
    assert found[2][2] == "Removing permissions"
    assert found[3][1:] == ({}, "Permissions are in the desired state")
    assert [row[0] for row in found[4:]] == [False] * 4
    assert [row[1] for row in found[4:]] == [{}] * 4
    assert found[4][2] == "/none does not exist"
    assert "is none of user, group, other, mask" in found[5][2]
    assert "Invalid argument" in found[7][2]


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    """Yield a loop device of 64 MB."""
    image = tmp_path / "image"
    with image.open("wb") as stream:
        stream.truncate(64 * 1024 * 1024)
    words = ["losetup", "--find", "--show", str(image)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device: {done.stderr}")
    name = done.stdout.strip()
    try:
        # A device that is used again keeps what its last user has set.
        subprocess.run(["blockdev", "--setra", "256", "--setrw", name], check=True)
        yield name
    finally:
        subprocess.run(["losetup", "--detach", name], check=True)


def test_device_is_formatted_and_tuned_once(call: Caller, root: Root, device: str) -> None:
    def work() -> list[Any]:
        yes: Any = True
        one: Any = 1
        tune: dict[str, Any] = {"read-ahead": 512}
        return [
            call("blockdev.formatted", device, "ext3", test=True),
            *(call("blockdev.formatted", device, "ext3", inode_size=256) for _ in range(2)),
            call("blockdev.formatted", device, "ext4", force=True),
            call("blockdev.formatted", device, "nosuchfs"),
            call("blockdev.formatted", "/dev/none", "ext4"),
            call("blockdev.tuned", device, test=True, **tune),
            *(call("blockdev.tuned", device, **tune) for _ in range(2)),
            call("blockdev.tuned", device, test=True, **tune),
            call("blockdev.tuned", device, **{"read-only": yes}),
            call("blockdev.tuned", device, **{"read-write": yes}),
            call("blockdev.tuned", device, **{"read-ahed": one}),
            call("blockdev.tuned", "/etc/passwd", **tune),
        ]

    found = inside(root.path, work)
    assert found[0] == (None, {}, f"Changes to {device} will be applied ")
    assert found[1] == (
        True, {"new": "ext3", "old": ""}, f"{device} has been formatted with ext3"
    )  # fmt: skip
    assert found[2] == (True, {}, f"{device} already formatted with ext3")
    assert found[3][1] == {"new": "ext4", "old": "ext3"}
    assert found[4][0] is False
    assert found[4][2].endswith("install the package nosuchfs-progs")
    assert found[5] == (False, {}, "/dev/none does not exist")
    assert found[6] == (None, {}, f"Changes to {device} will be applied ")
    assert found[7][0] is True
    assert found[7][1]["read-ahead"].endswith(" to 512")
    same: Any = (True, {}, f"Block device {device} already in correct state")
    assert found[8] == found[9] == same
    assert found[10][1] == {"read-only": "Changed from False to True"}
    assert found[11][1] == {"read-write": "Changed from False to True"}
    assert "Invalid keyword arguments: read-ahed=1" in found[12][2]
    assert found[13][2] == "Changes to /etc/passwd cannot be applied. Not a block device."

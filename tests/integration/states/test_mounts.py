"""mount.* with real mounts, each test in a mount namespace of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.redact import MASK
from catena.core.types import StateResult
from tests.support.mount_spaces import apart, needs_mounts

pytestmark = needs_mounts

Apply = Callable[..., StateResult]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "fstab"
    path.write_text("# kept\nproc /proc proc defaults 0 0\n")
    return path


@pytest.fixture
def apply(context: Context, config: Path) -> Apply:
    def call(fun: str, name: Path | str, *, test: bool = False, **options: Any) -> StateResult:
        found: StateResult = context.states[f"mount.{fun}"].call(
            context.with_(test=test), str(name), config=str(config), **options
        )
        return found

    return call


def shown(found: StateResult) -> tuple[Any, ...]:
    return found.result, dict(found.changes), found.comment


def options_at(point: Path) -> set[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    escaped = str(point).replace(" ", "\\040")
    rows = [line.split() for line in lines if line.split()[4] == escaped]
    return {*rows[-1][5].split(","), *rows[-1][-1].split(",")} if rows else set()


def test_tmpfs_is_mounted_once_and_kept_in_fstab(
    apply: Apply, config: Path, tmp_path: Path
) -> None:
    point = tmp_path / "a b"
    wanted = {"device": "tmpfs", "fstype": "tmpfs", "opts": ["size=1m", "mode=755"], "mkmnt": True}

    def work() -> list[Any]:
        return [
            *(shown(apply("mounted", point, test=test, **wanted)) for test in (True, False)),
            options_at(point),
            *(shown(apply("mounted", point, test=test, **wanted)) for test in (False, True)),
        ]

    before, first, options, again, tried = apart(work)
    assert before == (None, {}, f"{point} would be created and mounted")
    told = "Target was successfully mounted. Added new entry to the fstab."
    assert first == (True, {"mount": True, "persist": "new"}, told)
    assert {"size=1024k", "mode=755"} <= options
    told = "Target was already mounted. Entry already exists in the fstab."
    assert again == tried == (True, {}, told)
    escaped = str(point).replace(" ", "\\040")
    line = f"tmpfs\t\t{escaped}\ttmpfs\tsize=1m,mode=755\t0 0\n"
    assert config.read_text() == f"# kept\nproc /proc proc defaults 0 0\n{line}"


def test_changed_options_cause_one_remount(apply: Apply, config: Path, tmp_path: Path) -> None:
    wanted = {"device": "tmpfs", "fstype": "tmpfs"}

    def work() -> list[Any]:
        apply("mounted", tmp_path / "m", mkmnt=True, opts="noexec,nodev", **wanted)
        found = [
            shown(apply("mounted", tmp_path / "m", opts="noexec,ro", test=test, **wanted))
            for test in (True, False, False)
        ]
        return [*found, options_at(tmp_path / "m")]

    before, first, again, options = apart(work)
    assert before[::2] == (None, "Remount would be forced because options (nodev,ro) changed")
    assert first[1] == {
        "umount": "Forced remount because options (nodev,ro) changed",
        "persist": "update",
    }
    assert again[:2] == (True, {})
    assert {"ro", "noexec"} <= options
    assert "nodev" not in options
    assert "noexec,ro\t0 0\n" in config.read_text()


def test_bind_mount_is_recognised_by_its_source(apply: Apply, tmp_path: Path) -> None:
    for name in ("one", "two", "point"):
        (tmp_path / name).mkdir()
    (tmp_path / "two" / "file").touch()
    wanted = {"fstype": "none", "opts": "bind"}

    def work() -> list[Any]:
        found = []
        for name in ("one", "one", "two"):
            device = str(tmp_path / name)
            found.append(shown(apply("mounted", tmp_path / "point", device=device, **wanted)))
        return [*found, (tmp_path / "point" / "file").exists()]

    first, again, other, there = apart(work)
    assert first[1] == {"mount": True, "persist": "new"}
    assert again[:2] == (True, {})
    assert other[1]["umount"].startswith("Forced unmount because devices don't match. Wanted: ")
    assert (other[1]["mount"], other[1]["persist"], there) == (True, "update", True)


def test_image_is_mounted_through_a_loop_device(apply: Apply, tmp_path: Path) -> None:
    if not Path("/dev/loop-control").exists():
        pytest.skip("this host has no loop devices")
    image, point = tmp_path / "image", tmp_path / "point"
    with image.open("wb") as stream:
        stream.truncate(4 * 1024 * 1024)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    wanted = {"device": str(image), "fstype": "ext4", "opts": "loop,acl,noatime", "mkmnt": True}

    def work() -> list[Any]:
        found = [shown(apply("mounted", point, **wanted)) for _ in range(2)]
        found.append(shown(apply("mod_watch", point, sfun="mounted", **wanted)))
        return [*found, shown(apply("unmounted", point, device=str(image), persist=True))]

    first, again, watched, gone = apart(work)
    assert first[1] == {"mount": True, "persist": "new"}, first
    assert again[:2] == (True, {})
    assert watched == (True, {"remount": True}, f"{point} remounted")
    assert gone[1] == {"umount": True, "persist": "purged"}


def test_mount_is_removed_with_all_its_layers(apply: Apply, config: Path, tmp_path: Path) -> None:
    point = tmp_path / "point"
    point.mkdir()

    def work() -> list[Any]:
        for _ in range(2):
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(point)], check=True)
        with config.open("a") as stream:
            stream.write(f"tmpfs {point} tmpfs defaults 0 0\n# end\n")
        return [
            shown(apply("unmounted", point, persist=True, test=test))
            for test in (True, False, False, True)
        ]

    before, first, again, tried = apart(work)
    assert before == (None, {}, f"Mount point {point} is mounted but should not be")
    told = "Target was successfully unmounted. Removed target from fstab"
    assert first == (True, {"umount": True, "persist": "purged"}, told)
    assert again == tried == (True, {}, "Target was already unmounted. fstab entry not found")
    assert config.read_text() == "# kept\nproc /proc proc defaults 0 0\n# end\n"


def test_busy_mount_names_what_uses_it(apply: Apply, tmp_path: Path) -> None:
    point = tmp_path / "point"
    wanted = {"device": "tmpfs", "fstype": "tmpfs", "mkmnt": True}

    def work() -> StateResult:
        apply("mounted", point, **wanted)
        with (point / "open").open("w"):
            return apply("unmounted", point)

    found = apart(work)
    assert (found.result, dict(found.changes)) == (False, {})
    assert "target is busy" in found.comment
    assert "used by " in found.comment
    assert "(process " in found.comment


def test_missing_point_and_unknown_type_fail(apply: Apply, config: Path, tmp_path: Path) -> None:
    before = config.read_text()

    def work() -> list[Any]:
        return [
            shown(apply("mounted", tmp_path / "none", device="tmpfs", fstype="tmpfs")),
            shown(apply("mounted", tmp_path, device="/dev/none", fstype="ext4")),
            shown(apply("mounted", tmp_path, device="none", fstype="nosuchfs")),
            shown(apply("mounted", "relative", device="tmpfs", fstype="tmpfs")),
        ]

    missing, device, kind, relative = apart(work)
    assert missing == (False, {}, "Mount directory is not present")
    assert (device[:2], "/dev/none" in device[2]) == ((False, {}), True)
    assert kind[:2] == (False, {})
    assert kind[2].startswith("mount: ")
    assert relative == (False, {}, "'relative' is no absolute path")
    assert config.read_text() == before


def test_password_is_not_shown_when_a_mount_fails(
    apply: Apply, context: Context, config: Path, tmp_path: Path
) -> None:
    config.write_text("//server/share /mnt cifs user=u,password=hunter2 0 0\n")
    shown_opts = context.call("mount.fstab", str(config))["/mnt"]["opts"]
    assert shown_opts == ["user=u", f"password={MASK}"]
    options = {"device": "//127.0.0.1/x", "fstype": "cifs", "opts": "user=u,password=hunter2"}
    found = apart(lambda: apply("mounted", tmp_path, **options))
    assert found.result is False
    assert "hunter2" not in f"{found.comment}{found.changes}"


def test_fstab_alone_is_changed_without_mounting(
    apply: Apply, config: Path, tmp_path: Path
) -> None:
    wanted = {"fs_file": f"{tmp_path}/x/", "fs_vfstype": "ext4", "mount": False}
    device, point = "UUID=12-34", tmp_path / "x"
    before = apply("fstab_present", device, test=True, **wanted)
    assert shown(before) == (None, {}, f"{point} entry will be written in {config}.")
    first = apply("fstab_present", device, **wanted)
    assert shown(first) == (True, {"persist": "new"}, f"{point} entry added in {config}.")
    again = apply("fstab_present", device, **wanted)
    assert shown(again) == (True, {}, f"{point} entry was already in {config}.")
    other = apply("fstab_present", device, fs_mntops=["ro"], **wanted)
    assert other.changes == {"persist": "change"}
    kept = apply("fstab_present", device, fs_mntops="noexec", not_change=True, **wanted)
    assert kept.changes == {}
    stranger = apply("fstab_absent", "UUID=other", fs_file=str(point))
    assert shown(stranger) == (True, {}, f"{point} entry is already missing in {config}.")
    gone = apply("fstab_absent", device, fs_file=str(point))
    assert shown(gone) == (True, {"persist": "removed"}, f"{point} entry removed from {config}.")
    assert config.read_text() == "# kept\nproc /proc proc defaults 0 0\n"


def test_device_of_a_line_is_named_by_its_uuid(apply: Apply, tmp_path: Path) -> None:
    if not Path("/dev/loop-control").exists():
        pytest.skip("this host has no loop devices")
    image = tmp_path / "image"
    with image.open("wb") as stream:
        stream.truncate(4 * 1024 * 1024)
    uuid = "01234567-89ab-cdef-0123-456789abcdef"
    subprocess.run(["mkfs.ext4", "-q", "-U", uuid, str(image)], check=True)
    wanted = {"fs_file": str(tmp_path / "x"), "fs_vfstype": "ext4", "mount": False}
    apply("fstab_present", image, mount_by="uuid", **wanted)
    assert f"UUID={uuid}\t\t" in (tmp_path / "fstab").read_text()
    label = apply("fstab_present", image, mount_by="label", **wanted)
    assert shown(label) == (False, {}, f"Device {image} cannot be converted to label")
    wrong = apply("fstab_present", image, mount_by="name", **wanted)
    assert wrong.result is False


def test_swap_file_is_active_and_kept_in_fstab(apply: Apply, config: Path, tmp_path: Path) -> None:
    folder = Path("/var/tmp") if os.access("/var/tmp", os.W_OK) else tmp_path
    file = folder / f"catena-swap-{os.getpid()}"
    try:
        with file.open("wb") as stream:
            stream.write(bytes(1024 * 1024))
        file.chmod(0o600)
        subprocess.run(["mkswap", str(file)], check=True, capture_output=True)
        if subprocess.run(["swapon", str(file)], check=False, capture_output=True).returncode:
            pytest.skip("this host has no swap")
        subprocess.run(["swapoff", str(file)], check=True)
        before = apply("swap", file, test=True)
        told = f"Swap {file} is set to be added to the fstab and to be activated"
        assert shown(before) == (None, {}, told)
        first = apply("swap", file)
        assert first.comment == f"Swap {file} activated. Added new entry to the fstab."
        assert (first.changes["type"], first.changes["persist"]) == ("file", "new")
        again = apply("swap", file)
        assert shown(again) == (True, {}, f"Swap {file} already active")
        assert config.read_text().endswith(f"{file}\t\tnone\tswap\tdefaults\t0 0\n")
    finally:
        subprocess.run(["swapoff", str(file)], check=False, capture_output=True)
        file.unlink()

"""Lines of fstab, options of mounts and sources of mounts, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.errors import UsageError
from catena.core.redact import MASK
from catena.modules.shared import fstab, mount_options, mounted
from catena.modules.shared.mount_call import mount_words, options_without, private_options

LINES = [
    "# kept",
    "proc /proc proc defaults 0 0",
    "",
    "damaged line",
    "/dev/sdb1\t/srv ext4\tnoatime,acl 0 2",
]


def test_new_entry_is_appended_and_the_other_lines_stay() -> None:
    entry = fstab.entry_of("/a b", "UUID=1", "xfs", ["rw", "noatime"], 1, "2")
    lines, kind = fstab.with_entry(LINES, entry, ("device",))
    assert kind == "new"
    assert lines == [*LINES, "UUID=1\t\t/a\\040b\txfs\trw,noatime\t1 2"]
    assert fstab.parse(lines[-1]) == entry
    assert fstab.with_entry(lines, entry, ("device",)) == (lines, "present")


def test_entry_is_present_when_only_the_order_of_options_differs() -> None:
    entry = fstab.entry_of("/srv", "/dev/sdb1", "ext4", "acl,noatime", 0, 2)
    assert fstab.with_entry(LINES, entry, ("device",)) == (LINES, "present")


def test_changed_entry_is_replaced_in_its_place() -> None:
    entry = fstab.entry_of("/data", "/dev/sdb1", "ext4")
    lines, kind = fstab.with_entry([*LINES, "# end"], entry, ("device",))
    assert (kind, lines[4]) == ("change", "/dev/sdb1\t\t/data\text4\tdefaults\t0 0")
    assert lines[:4] + lines[5:] == [*LINES[:4], "# end"]
    kept = fstab.with_entry(LINES, entry, ("device",), keep=True)
    assert kept == (LINES, "present")


def test_line_of_the_same_mount_point_is_meant_when_a_device_has_several() -> None:
    lines = ["/dev/sdb1 /a ext4 defaults 0 0", "/dev/sdb1 /b ext4 defaults 0 0"]
    entry = fstab.entry_of("/b", "/dev/sdb1", "ext4", "ro")
    changed, kind = fstab.with_entry(lines, entry, ("device",))
    assert kind == "change"
    assert changed == [lines[0], "/dev/sdb1\t\t/b\text4\tro\t0 0"]


@pytest.mark.parametrize(
    ("fstype", "opts", "keys"),
    [
        ("ext4", "defaults", ("device",)),
        ("ext4", "bind", ("name",)),
        ("tmpfs", "defaults", ("name",)),
        ("btrfs", "subvol=a", ("name",)),
    ],
)
def test_lines_are_found_by_device_or_mount_point(
    fstype: str, opts: str, keys: tuple[str, ...]
) -> None:
    assert fstab.keys_of("auto", fstab.entry_of("/a", "/dev/x", fstype, opts)) == keys


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("/a", "/dev/x\n/dev/sda / ext4 defaults 0 0", "ext4"), "device"),
        (("/a", "", "ext4"), "device"),
        (("/a", "#x", "ext4"), "comment"),
        (("/a", "/dev/x", "ext4", {"a": 1}), "opts"),
        (("/a", "/dev/x", "ext4", "ro\nx"), "opts"),
        (("/a", "/dev/x", "ext4", "ro", "-1"), "dump"),
        (("/a", "/dev/x", "ext4", "ro", 0, "first"), "pass_num"),
    ],
)
def test_arguments_that_no_line_can_hold_are_refused(
    arguments: tuple[object, ...], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        fstab.entry_of(*arguments)


def test_unknown_field_of_match_on_names_the_nearest() -> None:
    entry = fstab.entry_of("/a", "/dev/x", "ext4")
    with pytest.raises(UsageError, match="did you mean 'device'"):
        fstab.keys_of("devise", entry)


def differs(wanted: str, seen: str, superopts: str, fstype: str = "ext4") -> list[str]:
    rules = mount_options.rules_of()
    words = (wanted.split(","), seen.split(","), superopts.split(","))
    return list(mount_options.differing(*words, fstype, rules))


@pytest.mark.parametrize(
    ("wanted", "seen", "superopts", "fstype"),
    [
        ("defaults,nofail,_netdev,x-systemd.automount,acl", "rw,relatime", "rw", "ext4"),
        ("rw,exec,suid,dev,async", "rw,relatime", "rw", "ext4"),
        ("size=1m,mode=0755", "rw", "rw,size=1024k,mode=755", "tmpfs"),
        ("size=50%,mode=1777", "rw", "rw", "tmpfs"),
        ("uid=root,gid=0", "rw", "rw,uid=0,gid=0", "vfat"),
        ("vers=4,tcp,bg,soft", "rw", "rw,vers=4.2,proto=tcp", "nfs"),
        ("user=u,password=secret,credentials=/etc/c", "rw", "rw,username=u", "cifs"),
        ("ro", "rw", "ro", "iso9660"),
    ],
)
def test_options_that_only_look_different_need_no_remount(
    wanted: str, seen: str, superopts: str, fstype: str
) -> None:
    assert differs(wanted, seen, superopts, fstype) == []


@pytest.mark.parametrize(
    ("wanted", "seen", "superopts", "found"),
    [
        ("noatime,nofail", "rw,relatime", "rw", ["noatime"]),
        ("rw", "ro", "rw", ["rw"]),
        ("ro", "rw", "rw", ["ro"]),
        ("exec", "rw,noexec", "rw", ["exec"]),
        ("size=2m", "rw", "rw,size=1024k", ["size=2m"]),
    ],
)
def test_options_that_differ_are_found(
    wanted: str, seen: str, superopts: str, found: list[str]
) -> None:
    assert differs(wanted, seen, superopts, "tmpfs") == found


def test_arguments_of_the_state_extend_the_rules() -> None:
    rules = mount_options.rules_of(["odd"], ["key"], {"x": ["free"]}, {"a": "b"}, "hide")
    words = ("odd", "key=1", "free=2", "a", "hide", "other")
    assert mount_options.differing(words, ("rw", "b"), ("rw",), "x", rules) == ("other",)
    with pytest.raises(UsageError, match="extra_mount_"):
        mount_options.rules_of(translated="a=b")


def test_passwords_are_neither_shown_nor_in_the_command_line() -> None:
    options = ["user=u", "password=hunter2", "credentials=/etc/c"]
    assert fstab.shown(options) == ["user=u", f"password={MASK}", "credentials=/etc/c"]
    with private_options("//s/x", "/mnt", "cifs", options) as private:
        words = mount_words("//s/x", "/mnt", "cifs", options_without(options, private), private)
        assert words == ["mount", "-o", "user=u,credentials=/etc/c", "-t", "cifs", "//s/x", "/mnt"]
        assert private.env == {"PASSWD": "hunter2"}
        assert private.hide("bad hunter2") == f"bad {MASK}"
    with private_options("mon:/", "/mnt", "ceph", ["secret=hunter2"]) as private:
        words = mount_words("mon:/", "/mnt", "ceph", [], private)
        table = Path(private.table)
        assert table.stat().st_mode & 0o777 == 0o600
        assert table.read_text() == "mon:/\t\t/mnt\tceph\tsecret=hunter2\t0 0\n"
        assert words == ["mount", "--fstab", str(table), "--target", "/mnt"]
    assert not table.exists()


INFO = (
    "1 0 8:1 / / rw - ext4 /dev/sda1 rw,errors=remount-ro\n"
    "2 1 8:1 /srv/data /mnt/a\\040b rw,relatime - ext4 /dev/sda1 rw\n"
    "3 1 0:30 / /run rw,nosuid shared:5 - tmpfs tmpfs rw,size=1k\n"
    "4 1 0:31 / /nfs rw - nfs4 server:/export rw,vers=4.2\n"
    "5 1 0:32 / /ssh rw - fuse.sshfs u@h:/x rw\n"
)


@pytest.mark.parametrize(
    ("point", "device", "options", "found"),
    [
        ("/mnt/a b", "/srv/data", ["bind"], True),
        ("/mnt/a b", "/srv/other", ["bind"], False),
        ("/run", "tmpfs", [], True),
        ("/run", "none", [], False),
        ("/nfs", "server:/export/", [], True),
        ("/ssh", "sshfs#u@h:/x", [], True),
        ("/", "UUID=none", [], False),
    ],
)
def test_source_of_a_mount_is_known(
    point: str, device: str, options: list[str], found: bool
) -> None:
    rows = {one.point: one for one in mounted.parse(INFO)}
    assert mounted.is_from(rows[point], device, options, rows) is found

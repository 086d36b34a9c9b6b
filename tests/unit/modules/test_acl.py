"""Entries of access control lists as text."""

from __future__ import annotations

import pytest

from catena.core.errors import UsageError
from catena.modules import acl

TEXT = """\
# file: /a\\040b
# owner: root
# group: staff
# flags: -s-
user::rwx
user:web:r-x\t\t#effective:r--
group::r--
mask::r--
other::---
default:user::rwx
default:group:web:rw-
"""


def test_output_of_getfacl_is_read() -> None:
    row = acl.parse(TEXT)["/a b"]
    assert row["comment"] == {"file": "/a b", "owner": "root", "group": "staff", "flags": "-s-"}
    assert (row["sgid"], "suid" in row) == (True, False)
    assert acl.entries(row, acl.entry_of("user")) == [("root", 7), ("web", 5)]
    assert acl.entries(row, acl.entry_of("g")) == [("staff", 4)]
    assert acl.entries(row, acl.entry_of("mask")) == [("", 4)]
    assert acl.entries(row, acl.entry_of("default:group")) == [("web", 6)]
    permissions = {"read": True, "write": False, "execute": True}
    assert row["user"][1] == {"web": {"permissions": permissions, "octal": 5}}


@pytest.mark.parametrize(
    ("kind", "name", "spec"),
    [
        ("user", "web", "u:web"),
        ("d:u", "web", "d:u:web"),
        ("default:group", "", "d:g:"),
        ("o", "", "o:"),
        ("mask", "", "m:"),
    ],
)
def test_entries_as_setfacl_reads_them(kind: str, name: str, spec: str) -> None:
    assert acl.entry_of(kind, name).spec() == spec
    assert acl.entry_of(kind, name).spec("r") == f"{spec}:r"


@pytest.mark.parametrize(
    ("kind", "name"), [("users", "a"), ("default", "a"), ("user", "a,u:b"), ("user", "-x")]
)
def test_wrong_entries_are_refused(kind: str, name: str) -> None:
    with pytest.raises(UsageError):
        acl.entry_of(kind, name)


def test_permissions_are_letters_or_a_digit() -> None:
    assert [acl.octal_of(acl.checked_perms(one)) for one in ("rwx", "rX", "", 5)] == [7, 5, 0, 5]
    with pytest.raises(UsageError, match="perms"):
        acl.checked_perms("rwz")

"""Texts of package managers, read for inventories, and commands built from options."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.pkg import (
    apt,
    apt_inventory,
    dnf,
    dnf_inventory,
    installs,
    rpm_inventory,
    zypper,
    zypper_inventory,
)
from catena.modules.pkg import inventory_functions as functions
from catena.modules.pkg.inventory import (
    FIELD,
    RECORD,
    Inventory,
    PackageInfo,
    SearchQuery,
    UpgradeOptions,
    by_attributes,
)
from catena.modules.pkg.provider import xml_of


def record(*values: str) -> str:
    return FIELD.join(values) + RECORD


def test_rpm_packages_are_read_with_times_and_without_keys_and_missing_names() -> None:
    form, names = rpm_inventory.info_format(["epoch", "version", "install_date_time_t", "no"])
    assert names == ["epoch", "version", "install_date_time_t"]
    assert form.count(FIELD) == 4 and form.endswith(RECORD)
    text = (
        record("bash", "1:5.2-3", "1", "5.2", "1700000000")
        + "package no-such is not installed\n"
        + record("zsh", "5-1", "", "5", "")
        + record("gpg-pubkey", "1-1", "", "1", "5")
    )
    found = rpm_inventory.parse_info(text, names)
    assert found == [
        PackageInfo(
            "bash", "1:5.2-3", {"epoch": "1", "version": "5.2", "install_date_time_t": 1700000000}
        ),
        PackageInfo("zsh", "5-1", {"version": "5"}),
    ]


def test_rpm_knows_none_of_the_attributes() -> None:
    with pytest.raises(CommandExecutionError, match="No valid attributes found"):
        rpm_inventory.info_format(["colour"])
    assert rpm_inventory.info_format(["source_rpm"])[1] == ["source"]


def test_provides_are_grouped_by_what_is_provided() -> None:
    text = "/bin/sh\tbash\n/bin/sh\tdash\n/bin/sh\tbash\nbroken\n"
    assert rpm_inventory.parse_provides(text) == {"/bin/sh": ["bash", "dash"]}


def test_debian_packages_that_are_only_configured_are_left_out() -> None:
    names = ["arch", "size", "install_date"]
    text = record("a", "amd64", "1:2-3", "ii ", "amd64", "3", "1700000000") + record(
        "b", "all", "1", "rc ", "all", "1", ""
    )
    assert apt_inventory.parse_info(text, names) == [
        PackageInfo(
            "a", "1:2-3", {"arch": "amd64", "size": "3072", "install_date": "2023-11-14T22:13:20Z"}
        )
    ]


def test_apt_texts_are_read() -> None:
    assert apt_inventory.parse_offered(" a | 2 | repo\n a | 1 | repo\n a | 2 | other\n") == {
        "a": ["2", "1"]
    }
    assert apt_inventory.parse_dump("Package: a\nVersion: 2\n\nPackage: b\nVersion: 1\n") == {
        "a": ["2"],
        "b": ["1"],
    }
    assert apt_inventory.parse_search("a - one - two\n") == {
        "a": {"name": "a", "summary": "one - two"}
    }
    assert apt_inventory.parse_selections("a\tinstall\nb:i386\thold\nodd\n") == {
        "a": "install",
        "b:i386": "hold",
    }
    assert apt_inventory.parse_checkrestart("SERVICE:ssh,1\nPROCESS:x\nSERVICE:cron,2\n") == [
        "cron",
        "ssh",
    ]


PRODUCTS = """<?xml version='1.0'?><stream><product-list>
<product name="SLES" version="15" release="0" productline="sles" isbase="true" installed="1"
 vendor="SUSE"><endoflife time_t="5" text="soon"/><description>First
   second</description></product>
</product-list></stream>"""


def test_products_of_zypper_have_salts_names() -> None:
    assert zypper_inventory.parse_products(PRODUCTS) == [
        {
            "name": "SLES", "version": "15", "release": "0", "productline": "sles",
            "isbase": True, "installed": True, "vendor": "SUSE", "eol": "soon", "eol_t": 5,
            "description": "First second",
        }
    ]  # fmt: skip


def test_zypper_texts_are_read() -> None:
    found = zypper_inventory.parse_patches(
        "<s><solvable name='P-1' status='installed' summary='x'/>"
        "<solvable name='P-2' status='not-installed' summary='y'/></s>"
    )
    assert [row["installed"] for row in found.values()] == [True, False]
    assert zypper_inventory.parse_locks(
        "\ntype: package\nmatch_type: glob\nsolvable_name: a\n\n# odd\ntype: package\n"
    ) == {"a": {"type": "package", "match_type": "glob"}}
    (one,) = zypper_inventory.parse_downloads(
        "<s><download-result><solvable><name>a</name></solvable>"
        "<repository name='R' alias='r'/><localfile path='/p/a.rpm'/></download-result></s>"
    )
    assert (one.name, one.path, one.repository) == ("a", "/p/a.rpm", ("r", "R"))


@pytest.mark.parametrize(
    "text", ["no xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "<a><b></a>"]
)
def test_output_that_is_no_plain_xml_is_an_error(text: str) -> None:
    with pytest.raises(CommandExecutionError, match="XML"):
        xml_of(text)


def test_search_of_zypper_takes_salts_options_and_no_others() -> None:
    query = SearchQuery("-x", "exact", ("details", "provides", "refresh"))
    assert zypper_inventory.search_command(query) == [
        "search", "--match-exact", "--details", "--provides", "--", "-x",
    ]  # fmt: skip


def test_advisory_is_open_while_one_of_its_packages_is_missing() -> None:
    text = (
        "i FEDORA-1 bugfix a-1-1.noarch\n  FEDORA-1 bugfix b-1-1.noarch\ni FEDORA-2 security c\n"
    )
    found = dnf_inventory.parse_advisories(text, False)
    assert found["FEDORA-1"] == {"installed": False, "summary": ["a-1-1.noarch", "b-1-1.noarch"]}
    assert found["FEDORA-2"]["installed"] is True


def test_groups_of_dnf_are_read() -> None:
    listed = dnf_inventory.parse_groups(
        "Available Environment Groups:\n   Server\nInstalled Groups:\n   Tools\nOther:\n   odd\n"
    )
    assert listed["available environments"] == ["Server"] and listed["installed"] == ["Tools"]
    info = dnf_inventory.parse_group(
        "Group: Tools\n Description: for work\n Mandatory Packages:\n   a\n Optional Packages:\n"
        "   =b\n"
    )
    assert (info["group"], info["mandatory"], info["optional"]) == ("Tools", ["a"], ["b"])
    with pytest.raises(CommandExecutionError, match="no group"):
        dnf_inventory.parse_group("nothing")


def test_list_pkgs_with_attributes_always_has_version_and_arch() -> None:
    package = PackageInfo("a", "1-2", {"version": "1", "release": "2", "arch": "x86_64"})
    assert by_attributes([package], ["epoch"]) == {
        "a": [{"epoch": None, "version": "1", "arch": "x86_64"}]
    }
    assert set(by_attributes([package], ["all"])["a"][0]) == {
        "epoch", "version", "release", "arch", "install_date", "install_date_time_t",
    }  # fmt: skip


def test_info_installed_shows_the_newest_unless_all_versions_are_asked_for() -> None:
    rows = [
        PackageInfo("k", "1", {"version": "1", "install_date_time_t": 1}),
        PackageInfo("k", "2", {"version": "2\ufffd", "install_date_time_t": 2}),
    ]
    one = functions.described(rows, ["version"], report=True, every=False)
    assert one == {"k": {"version": "N/A (broken)", "install_date_time_t": 2}}
    every = functions.described(rows, ["version"], report=False, every=True)
    assert [row["version"] for row in every["k"]] == ["1", "2"]
    assert [row["edition"] for row in every["k"]] == ["1", "2"]


OPTIONS = UpgradeOptions(
    dist=True, dry_run=True, keep_vendor=True, from_repos=("r",), skip_verify=True
)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            zypper.upgrade_command(OPTIONS),
            "zypper --non-interactive --no-gpg-checks dist-upgrade --auto-agree-with-licenses "
            "--dry-run --from r --no-allow-vendor-change",
        ),
        (
            zypper.upgrade_command(UpgradeOptions(names=("a",), from_repos=("r",))),
            "zypper --non-interactive update --auto-agree-with-licenses --repo r -- a",
        ),
        (
            dnf.upgrade_command(OPTIONS),
            "dnf --assumeno --nogpgcheck --disablerepo=* --enablerepo=r distro-sync --",
        ),
        (
            apt.upgrade_command(UpgradeOptions(names=("a",), dry_run=True))[-5:],
            "install --only-upgrade --simulate -- a",
        ),
    ],
)
def test_upgrade_command_has_the_options(command: list[str], expected: str) -> None:
    assert " ".join(command) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: i.products(False, ""), "m has no products: they are SUSE's"),
        (lambda i: i.patches(), "m has no patches"),
        (lambda i: i.groups(), "m has no groups of packages"),
        (lambda i: i.select("", False), "m has no selections: they are dpkg's"),
    ],
)
def test_manager_names_what_it_lacks(call: Any, message: str) -> None:
    with pytest.raises(CommandExecutionError, match=message):
        call(Inventory("m"))


def test_patches_are_told_from_packages() -> None:
    assert installs._patches(["A-1"], ["a", {"patch:B-2": ""}, "patch:C"]) == (
        ["A-1", "B-2", "C"],
        ["a"],
    )
    assert installs._patches(None, ["patch:C"]) == (["C"], None)
    with pytest.raises(UsageError):
        installs._patches(["--evil"], None)


def test_unknown_attribute_or_kind_is_named() -> None:
    with pytest.raises(UsageError, match="'colour' is no attribute"):
        installs._attributes("version,colour")
    with pytest.raises(UsageError, match="'kitten' is none of package"):
        installs._check_kinds(["kitten"])


def test_changes_show_attributes_or_versions() -> None:
    assert installs._changes({"a": ["1"]}, {"a": ["1", "2"]}) == {"a": {"old": "1", "new": "1,2"}}
    assert installs._changes({}, {"a": [{"version": "1"}]}) == {
        "a": {"old": "", "new": [{"version": "1"}]}
    }

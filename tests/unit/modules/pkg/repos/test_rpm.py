"""The repositories of dnf and zypper in a folder of a test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.pkg.repos.plan import RepoPlan, write_files
from catena.modules.pkg.repos.rpm import ZYPPER, RepoDialect, RpmRepositories, explained
from catena.modules.pkg.repos.rpm_keys import parse_keys
from tests.unit.states.conftest import MakeWorld

TEXT = "[a]\nname=A\nbaseurl=http://a.example/\nenabled=1\ngpgcheck = yes\n\n[b]\nname=B\n"


class Rpm:
    """A folder of repositories, and calls that plan and write."""

    def __init__(self, world: MakeWorld, folder: Path, dialect: RepoDialect) -> None:
        self.folder = folder
        folder.mkdir()
        self.repos = RpmRepositories(world().context, dialect)

    def change(self, repo: str, **options: Any) -> RepoPlan:
        """Carry out a plan; a second one has nothing to write."""
        plan = self.repos.planned(repo, options, "base")
        write_files(plan.files)
        again = self.repos.planned(repo, options, "base")
        assert not again.acts() and again.changes == {} and again.after == plan.after
        return plan


@pytest.fixture
def dnf(world: MakeWorld, tmp_path: Path) -> Rpm:
    return Rpm(world, tmp_path / "repos", RepoDialect((tmp_path / "repos",), {}))


@pytest.fixture
def zypper(world: MakeWorld, tmp_path: Path) -> Rpm:
    folder = tmp_path / "repos"
    return Rpm(world, folder, RepoDialect((folder,), ZYPPER.renamed, True))


def test_new_repository_has_a_file_of_its_own(dnf: Rpm) -> None:
    plan = dnf.change(
        "new", humanname="New one", baseurl="http://a.example/$releasever", gpgcheck=True,
        gpgkey=["http://a.example/k", "file:///k"], priority=10, enabled=True, refresh=False,
        comments=["why"], file=None, key_url=None,
    )  # fmt: skip
    assert plan.changes == {"repo": "new"}
    assert (dnf.folder / "new.repo").read_text() == (
        "[new]\n# why\nname=New one\nenabled=1\nbaseurl=http://a.example/$releasever\n"
        "gpgcheck=1\ngpgkey=http://a.example/k\n    file:///k\npriority=10\n"
    )
    assert dnf.repos.listed({})["new"]["priority"] == "10"


def test_present_repository_is_changed_in_its_file(dnf: Rpm) -> None:
    path = dnf.folder / "all.repo"
    path.write_text(TEXT)
    assert not dnf.repos.planned("a", {"gpgcheck": True, "enabled": True}, "base").acts()
    plan = dnf.change("a", gpgcheck=False, disabled=True, mirrorlist="http://m.example/")
    assert plan.changes == {
        "baseurl": {"old": "http://a.example/", "new": None},
        "enabled": {"old": "1", "new": "0"},
        "gpgcheck": {"old": "yes", "new": "0"},
        "mirrorlist": {"old": None, "new": "http://m.example/"},
    }
    assert path.read_text() == (
        "[a]\nname=A\nenabled=0\ngpgcheck=0\nmirrorlist=http://m.example/\n\n[b]\nname=B\n"
    )


def test_missing_line_counts_as_enabled(dnf: Rpm) -> None:
    (dnf.folder / "a.repo").write_text("[a]\nname=A\nbaseurl=http://a.example/\n")
    assert not dnf.repos.planned("a", {"enabled": True}, "base").acts()
    assert dnf.change("a", enabled=False).changes["enabled"] == {"old": None, "new": "0"}


def test_empty_value_removes_an_option(dnf: Rpm) -> None:
    (dnf.folder / "a.repo").write_text("[a]\nname=A\nbaseurl=http://a.example/\nproxy=p\n")
    dnf.change("a", proxy="")
    assert (dnf.folder / "a.repo").read_text() == "[a]\nname=A\nbaseurl=http://a.example/\n"


@pytest.mark.parametrize(
    ("repo", "options", "why"),
    [
        ("a]\n[b", {"baseurl": "x"}, "alias"),
        ("../a", {"baseurl": "x"}, "alias"),
        ("main", {"baseurl": "x"}, "alias"),
        ("a", {}, "give one of baseurl"),
        ("a", {"baseurl": "x", "bad name": "y"}, "can't be an option"),
        ("a", {"baseurl": "x\n[b]"}, "can't be written"),
        ("a", {"baseurl": ["x", "y\n[b]"]}, "can't be written"),
        ("a", {"baseurl": "x", "file": "a.repo"}, "absolute path"),
        ("copr:a", {}, "give one of baseurl"),
        ("copr:a/b/c", {}, "not copr:OWNER/NAME"),
    ],
)
def test_bad_arguments_are_refused(dnf: Rpm, repo: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        dnf.repos.planned(repo, options, "base")


def test_repository_is_removed_and_an_empty_file_too(dnf: Rpm) -> None:
    path = dnf.folder / "all.repo"
    path.write_text(TEXT)
    write_files(dnf.repos.removal("a", {}).files)
    assert path.read_text() == "[b]\nname=B\n"
    plan = dnf.repos.removal("b", {})
    write_files(plan.files)
    assert not path.exists() and "has been removed" in plan.told
    assert not dnf.repos.removal("b", {}).acts()


def test_zypper_has_own_names_and_booleans(zypper: Rpm) -> None:
    zypper.change("a", url="http://a.example/", refresh=True, cache=False, gpgautoimport=True)
    assert (zypper.folder / "a.repo").read_text() == (
        "[a]\nname=a\nenabled=1\nautorefresh=1\nkeeppackages=0\nbaseurl=http://a.example/\n"
    )
    assert zypper.repos.entry("a", {}) == {
        "alias": "a", "name": "a", "enabled": True, "autorefresh": True, "keeppackages": False,
        "baseurl": "http://a.example/", "file": str(zypper.folder / "a.repo"),
    }  # fmt: skip


def test_copr_archive_is_enabled_by_dnf(dnf: Rpm) -> None:
    plan = dnf.repos.planned("copr:@group/tool", {"enabled": True}, "base")
    assert plan.commands == (("dnf", "-y", "copr", "enable", "@group/tool"),)
    assert plan.changes == {"repo": "copr:@group/tool"} and plan.files == ()
    alias = "copr:copr.fedorainfracloud.org:group_group:tool"
    (dnf.folder / "c.repo").write_text(f"[{alias}]\nname=C\nbaseurl=http://a.example/\n")
    assert not dnf.repos.planned("copr:@group/tool", {"enabled": True}, "base").acts()
    assert dnf.repos.removal("copr:@group/tool", {}).acts()


def test_missing_plug_in_of_copr_is_named() -> None:
    error = CommandExecutionError("dnf ended with code 1: No such command: copr")
    assert "dnf-plugins-core" in str(explained(error))
    other = CommandExecutionError("dnf ended with code 1: no network")
    assert explained(other) is other


def test_keys_of_the_database_are_parsed() -> None:
    text = "package gpg-pubkey is not installed\nd00b4420\t6b04636f\tgpg(Repo <r@example.org>)\n"
    assert parse_keys(text) == {
        "D00B4420": {
            "keyid": "D00B4420", "date_creation": 1795449711, "uid": "Repo <r@example.org>",
            "package": "gpg-pubkey-d00b4420-6b04636f",
        }
    }  # fmt: skip

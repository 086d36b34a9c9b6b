"""Repository files that catena writes, read by the real package managers."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.modules.pkg.repos.apt import AptRepositories
from catena.modules.pkg.repos.plan import write_files
from catena.modules.pkg.repos.rpm import DNF, ZYPPER, RepoDialect, RpmRepositories
from tests.integration.packages.conftest import context_of
from tests.support.debian_roots import Root
from tests.support.openpgp_keys import CURVE

pytestmark = [pytest.mark.container, pytest.mark.roots("bookworm")]


@pytest.mark.parametrize("name", ["new.list", "new.sources"])
def test_apt_reads_a_source_and_its_key(root: Root, name: str) -> None:
    folder = root.path / "etc" / "apt"
    repos = AptRepositories(context_of(root, "apt"), folder)
    line = "deb [arch=amd64] https://repo.example/debian x main contrib"
    options = {"file": str(folder / "sources.list.d" / name), "key_text": CURVE,
               "signedby": str(folder / "keyrings" / "repo.asc")}  # fmt: skip
    write_files(repos.planned(line, options, "base").files)
    site = "https://repo.example/debian"
    assert {f"{site} x main", f"{site} x contrib"} <= targets(root)
    write_files(repos.removal(line, {}).files)
    assert not any("repo.example" in target for target in targets(root))


def targets(root: Root) -> set[str]:
    """Return address, suite and component of what apt would fetch."""
    form = "$(SITE) $(RELEASE) $(COMPONENT)"
    words = ("apt-get", "indextargets", "--no-release-info", "--format", form)
    return set(root.run(*words).out.splitlines())


def moved(dialect: RepoDialect, root: Root) -> RepoDialect:
    folders = tuple(root.path / str(folder).lstrip("/") for folder in dialect.folders)
    return RepoDialect(folders, dialect.renamed, dialect.booleans)


def test_dnf_lists_a_repository(root: Root) -> None:
    repos = RpmRepositories(context_of(root, "dnf"), moved(DNF, root))
    options = {"humanname": "New", "baseurl": "https://repo.example/rpm", "enabled": True}
    write_files(repos.planned("new", options, "base").files)
    assert root.run("dnf", "-q", "repolist", "--enabled").out.split()[-2:] == ["new", "New"]
    write_files(repos.planned("new", {**options, "enabled": False}, "base").files)
    assert "new" in root.run("dnf", "-q", "repolist", "--disabled").out.split()


def test_zypper_lists_a_repository(root: Root) -> None:
    repos = RpmRepositories(context_of(root, "zypper"), moved(ZYPPER, root))
    options = {"humanname": "New", "url": "https://repo.example/rpm", "refresh": True}
    write_files(repos.planned("new", options, "base").files)
    shown = root.run("zypper", "--non-interactive", "--xmlout", "repos").out
    assert 'alias="new"' in shown and 'name="New"' in shown and 'autorefresh="1"' in shown
    assert Path(repos.entry("new", {})["file"]).name == "new.repo"

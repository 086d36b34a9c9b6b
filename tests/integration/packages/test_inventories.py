"""What inventories ask of real package managers."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CatenaError
from tests.integration.packages.conftest import context_of
from tests.integration.packages.repositories import patch, publish_debs, publish_rpms, rpm
from tests.integration.packages.test_providers import Kind, kind, newer, state
from tests.support.debian_roots import Root

__all__ = ["kind"]
pytestmark = [pytest.mark.container, pytest.mark.roots("bookworm")]


@pytest.fixture
def context(kind: Kind, root: Root) -> Context:
    found = context_of(root, kind.name)
    found.call("pkg.refresh_db")
    return found


def test_info_installed_shows_attributes_of_one_or_all(kind: Kind, context: Context) -> None:
    context.call("pkg.install", "alpha")
    attributes = "arch,epoch,version,release,install_date_time_t"
    found = context.call("pkg.info_installed", attr=attributes, errors="report")
    alpha = found["alpha"]
    assert len(found) > 1 and isinstance(alpha["install_date_time_t"], int)
    assert alpha["arch"] in ("all", "noarch") and alpha["version"] == "1.0"
    assert set(alpha) <= set(attributes.split(","))
    (every,) = context.call("pkg.info_installed", "alpha", all_versions=True)["alpha"]
    assert every["edition"] == kind.one and "made by a test" in every["description"]
    missing = context.call("pkg.info_installed", "no-such", failhard=False)
    assert missing == {}


def test_changes_of_an_installation_show_the_wanted_attributes(
    kind: Kind, context: Context
) -> None:
    row = state(context, "pkg.installed", "alpha", diff_attr=["version", "arch"])
    change = row.changes["alpha"]
    assert change["old"] == "" and change["new"][0]["version"] == "1.0"
    assert set(change["new"][0]) == {"version", "arch"}
    again = state(context, "pkg.installed", "alpha", diff_attr=["version", "arch"])
    assert (again.result, again.changes) == (True, {})


def test_repositories_are_searched_and_listed(kind: Kind, root: Root, context: Context) -> None:
    newer(kind, root)
    context.call("pkg.refresh_db")
    assert "alpha" in context.call("pkg.search", "alph")
    assert [*context.call("pkg.search", "alpha", match="exact")] == ["alpha"]
    offered = context.call("pkg.list_repo_pkgs", "alpha", "beta")
    assert offered == {"alpha": [kind.two, kind.one], "beta": [kind.one]}
    assert set(context.call("pkg.list_repo_pkgs", "alp*")) == {"alpha"}
    with pytest.raises(CatenaError, match="No packages found"):
        context.call("pkg.search", "no-such-package")


def test_upgrade_is_simulated_and_then_done(kind: Kind, root: Root, context: Context) -> None:
    context.call("pkg.install", "alpha")
    newer(kind, root)
    context.call("pkg.refresh_db")
    said = context.call("pkg.upgrade", dryrun=True, dist_upgrade=True)
    assert "alpha" in said and context.call("pkg.version", "alpha") == kind.one
    row = state(context, "pkg.uptodate", "all", diff_attr=["version", "arch"])
    assert row.result is True and row.changes["alpha"]["new"][0]["version"] == "2.0"
    assert context.call("pkg.upgrade", name="alpha") == {}


def test_held_with_replace_releases_the_others(kind: Kind, root: Root, context: Context) -> None:
    if kind.name == "dnf":
        pytest.skip("the root has no versionlock plug-in")
    context.call("pkg.install", pkgs=["alpha", "beta"])
    assert state(context, "pkg.held", "alpha").result is True
    foretold = state(context_of(root, kind.name, test=True), "pkg.held", "beta", replace=True)
    assert foretold.result is None and "alpha" in foretold.comment
    made = state(context, "pkg.held", "beta", replace=True)
    assert (made.result, set(made.changes)) == (True, {"alpha", "beta"})
    assert context.call("pkg.list_holds") == ["beta"]
    again = state(context, "pkg.held", "beta", replace=True)
    assert (again.result, again.changes) == (True, {})
    # As Uyuni's packages.pkglock unlocks the last package.
    none = state(context, "pkg.held", "pkg_locked", pkgs=[], replace=True)
    assert (none.result, context.call("pkg.list_holds")) == (True, [])
    assert state(context, "pkg.held", "pkg_locked", pkgs=[]).changes == {}


def test_selections_of_dpkg_are_set_once(root: Root) -> None:
    publish_debs_of(root)
    context = context_of(root, "apt")
    context.call("pkg.install", "alpha", refresh=True)
    made = context.call("pkg.set_selections", selection={"hold": ["alpha"]})
    assert made == {"alpha": {"old": "install", "new": "hold"}}
    assert context.call("pkg.get_selections", pattern="alp*") == {"hold": ["alpha"]}
    assert context.call("pkg.set_selections", selection="{hold: [alpha]}") == {}
    with pytest.raises(CatenaError, match="'kept' is none of install"):
        context.call("pkg.set_selections", selection={"kept": ["alpha"]})


def publish_debs_of(root: Root) -> None:
    from tests.integration.packages.repositories import deb

    deb(root, "beta", "1.0")
    deb(root, "alpha", "1.0", depends="beta")
    publish_debs(root)


def test_apt_removes_what_nothing_needs_and_fetches_packages(root: Root) -> None:
    publish_debs_of(root)
    context = context_of(root, "apt")
    context.call("pkg.install", "alpha", refresh=True)
    context.call("pkg.remove", "alpha")
    assert context.call("pkg.autoremove", list_only=True) == ["beta"]
    assert context.call("pkg.autoremove") == {"beta": {"old": "1.0", "new": ""}}
    fetched = context.call("pkg.download", "alpha")
    assert fetched["alpha"]["path"].endswith("alpha_1.0_all.deb")
    assert (root.path / fetched["alpha"]["path"].lstrip("/")).is_file()


@pytest.mark.parametrize("name", ["dnf", "zypper"])
def test_provides_of_rpm_packages_are_listed(root: Root, name: str) -> None:
    rpm(root, "alpha", "1.0")
    publish_rpms(root)
    context = context_of(root, name)
    context.call("pkg.install", "alpha", refresh=True)
    assert context.call("pkg.list_provides")["alpha"] == ["alpha"]


@pytest.mark.parametrize("name", ["dnf", "zypper"])
def test_patch_is_installed_once(root: Root, name: str) -> None:
    rpm(root, "alpha", "1.0")
    publish_rpms(root)
    context = context_of(root, name)
    context.call("pkg.install", "alpha", refresh=True)
    rpm(root, "alpha", "2.0")
    publish_rpms(root)
    patch(root, "TEST-2026-1", "alpha", "2.0")
    context.call("pkg.refresh_db")
    assert context.call("pkg.list_patches")["TEST-2026-1"]["installed"] is False
    with pytest.raises(CatenaError, match="Advisory id 'TEST-2026-2' not found"):
        context.call("pkg.install", advisory_ids=["TEST-2026-2"])
    wanted = {"advisory_ids": ["TEST-2026-1"], "diff_attr": ["version", "release"]}
    foretold = state(context_of(root, name, test=True), "pkg.patch_installed", "x", **wanted)
    assert foretold.result is None and "TEST-2026-1" in foretold.comment
    made = state(context, "pkg.patch_installed", "x", **wanted)
    assert made.result is True and made.changes["alpha"]["new"][0]["version"] == "2.0"
    again = state(context, "pkg.patch_installed", "x", **wanted)
    assert (again.result, again.changes) == (True, {})
    assert "already installed" in again.comment


def test_zypper_locks_and_products(root: Root) -> None:
    rpm(root, "alpha", "1.0")
    publish_rpms(root)
    context = context_of(root, "zypper")
    # On Debian zypper makes up a product from the system's release file.
    for every in (False, True):
        products: Any = context.call("pkg.list_products", all=every)
        assert [type(row["isbase"]) for row in products] == [bool] * len(products)
    assert context.call("pkg.list_patches") == {}
    made = context.call("pkg.add_lock", "alpha")
    assert made == {"added": 1, "packages": ["alpha"]}
    assert "alpha" in context.call("pkg.list_holds")

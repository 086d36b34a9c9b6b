"""Real package managers against repositories that the test makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from catena.core.context import Context
from catena.core.errors import CatenaError, UsageError
from catena.core.types import StateResult
from tests.integration.packages.conftest import context_of
from tests.integration.packages.repositories import deb, publish_debs, publish_rpms, rpm
from tests.support.debian_roots import Root

pytestmark = [pytest.mark.container, pytest.mark.roots("bookworm")]
Build = Callable[[Root, str, str], object]


class Kind:
    """One package manager with its way to build and publish."""

    def __init__(self, name: str, build: Build, publish: Callable[[Root], None], old: str) -> None:
        self.name, self.build, self.publish = name, build, publish
        #: How this manager writes versions 1.0 and 2.0.
        self.one, self.two = old, old.replace("1.0", "2.0")


KINDS = [
    Kind("apt", deb, publish_debs, "1.0"),
    Kind("dnf", rpm, publish_rpms, "1.0-1"),
    Kind("zypper", rpm, publish_rpms, "1.0-1"),
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest, root: Root) -> Kind:
    found: Kind = request.param
    found.build(root, "alpha", "1.0")
    found.build(root, "beta", "1.0")
    found.publish(root)
    return found


def newer(kind: Kind, root: Root) -> None:
    kind.build(root, "alpha", "2.0")
    kind.publish(root)


def state(context: Context, name: str, *args: object, **kwargs: object) -> StateResult:
    found: StateResult = context.states[name].call(context, *args, **kwargs)
    return found


def test_package_is_installed_upgraded_and_removed(kind: Kind, root: Root) -> None:
    context = context_of(root, kind.name)
    made = context.call("pkg.install", "alpha", refresh=True)
    assert made == {"alpha": {"old": "", "new": kind.one}}
    assert context.call("pkg.version", "alpha") == kind.one
    assert context.call("pkg.version", "alpha", "beta") == {"alpha": kind.one, "beta": ""}
    assert context.call("pkg.latest_version", "alpha") == ""
    newer(kind, root)
    assert context.call("pkg.latest_version", "alpha", refresh=True) == kind.two
    assert context.call("pkg.list_upgrades") == {"alpha": kind.two}
    assert context.call("pkg.upgrade") == {"alpha": {"old": kind.one, "new": kind.two}}
    down = context.call("pkg.install", "alpha", version=kind.one)
    assert down == {"alpha": {"old": kind.two, "new": kind.one}}
    assert context.call("pkg.owner", "/usr/share/alpha/version") == "alpha"
    assert "/usr/share/alpha/version" in context.call("pkg.file_list", "alpha")["files"]
    assert context.call("pkg.purge", "alpha") == {"alpha": {"old": kind.one, "new": ""}}
    assert context.call("pkg.remove", "alpha") == {}


def test_versions_are_compared_by_the_rules_of_the_host(kind: Kind, root: Root) -> None:
    context = context_of(root, kind.name)
    assert context.call("pkg.version_cmp", "1.9", "1.10") == -1
    assert context.call("pkg.version_cmp", "1.0~rc1", "1.0") == -1
    assert context.call("pkg.version_cmp", "1:0.1", "9.9") == 1
    assert context.call("pkg.version_cmp", "2.0-1", "2.0-1") == 0


def test_installed_state_installs_once_and_predicts_its_changes(kind: Kind, root: Root) -> None:
    context = context_of(root, kind.name)
    would = state(replace(context, test=True), "pkg.installed", "alpha", refresh=True)
    assert would.result is None
    assert context.call("pkg.version", "alpha") == ""
    did = state(context, "pkg.installed", "tools", pkgs=["alpha", {"beta": ">=1.0"}], refresh=True)
    assert did.result is True, did.comment
    assert set(did.changes) == {"alpha", "beta"}
    again = state(context, "pkg.installed", "tools", pkgs=["alpha", "beta"])
    assert (again.result, dict(again.changes)) == (True, {})


def test_latest_state_upgrades_and_removed_state_removes(kind: Kind, root: Root) -> None:
    context = context_of(root, kind.name)
    context.call("pkg.install", "alpha", refresh=True)
    newer(kind, root)
    did = state(context, "pkg.latest", "alpha", refresh=True)
    assert did.changes == {"alpha": {"old": kind.one, "new": kind.two}}, did.comment
    assert state(context, "pkg.latest", "alpha").changes == {}
    gone = state(context, "pkg.removed", "alpha")
    assert gone.changes == {"alpha": {"old": kind.two, "new": ""}}
    assert state(context, "pkg.removed", "alpha").result is True


def test_package_in_no_repository_fails_with_the_managers_message(kind: Kind, root: Root) -> None:
    context = context_of(root, kind.name)
    with pytest.raises(CatenaError, match="gamma"):
        context.call("pkg.install", "gamma", refresh=True)
    with pytest.raises(CatenaError, match="offer"):
        context.call("pkg.install", "alpha", version=">=7")
    assert state(context, "pkg.latest", "gamma").result is False


@pytest.mark.parametrize("name", ["--help", "a b", "x;touch /x", "$(id)", "-o=APT::x", ""])
def test_package_name_that_could_be_an_option_is_refused(name: str) -> None:
    context = context_of(Root.__new__(Root), "apt")
    with pytest.raises(UsageError):
        context.call("pkg.install", pkgs=[name] if name else [])

"""Parts of the pkg states that need no package manager."""

from typing import Any

import pytest

from catena.states import pkg
from tests.unit.states.conftest import MakeWorld

CONTEXT: Any = None


def chunk(name: str, fun: str = "installed", **arguments: Any) -> dict[str, Any]:
    return {"state": "pkg", "__id__": name, "name": name, "fun": fun, **arguments}


def joined(low: dict[str, Any], *others: dict[str, Any], running: Any = ()) -> Any:
    low["__agg__"] = True
    return pkg.mod_aggregate(CONTEXT, low, [low, *others], running)


class Packages:
    """A package manager that lists what is installed and offers nothing newer."""

    def __init__(self, installed: dict[str, list[str]]) -> None:
        self._installed = installed

    def installed(self) -> dict[str, list[str]]:
        return self._installed

    def compare(self, left: str, right: str) -> int:
        return (left > right) - (left < right)

    def candidates(self, names: list[str]) -> dict[str, str]:
        return dict.fromkeys(names, "")


@pytest.mark.parametrize(
    ("family", "osarch", "name"),
    [
        ("Debian", "amd64", "bash:amd64"),
        ("Debian", "amd64", "bash:all"),
        ("RedHat", "x86_64", "bash.x86_64"),
        ("RedHat", "x86_64", "bash.noarch"),
    ],
)
def test_package_of_the_own_architecture_is_found_by_its_bare_name(
    monkeypatch: pytest.MonkeyPatch, world: MakeWorld, family: str, osarch: str, name: str
) -> None:
    monkeypatch.setattr(pkg, "provider", lambda _: Packages({"bash": ["5.2"]}))
    host = world(grains={"os_family": family, "osarch": osarch}).context
    assert pkg.installed(host, "x", pkgs=[{name: "5.2"}], refresh=False).result is True
    assert pkg.latest(host, name, refresh=False).result is True
    assert pkg.removed(host.with_(test=True), "x", pkgs=[name]).result is None
    assert pkg.removed(host, "x", pkgs=["bash:i386"]).result is True


def test_packages_of_one_function_are_joined() -> None:
    others = [chunk("b", version="1"), chunk("c", pkgs=["d", {"e": "2"}, "a"])]
    assert joined(chunk("a"), *others)["pkgs"] == ["a", {"b": "1"}, "d", {"e": "2"}]
    assert all(other["__agg__"] for other in others)


def test_version_goes_into_the_list_with_its_name() -> None:
    low = joined(chunk("a", version="3"), chunk("b"))
    assert low["pkgs"] == [{"a": "3"}, "b"] and "version" not in low
    alone = joined(chunk("a", version="3"))
    assert alone["version"] == "3" and "pkgs" not in alone


def test_states_with_different_options_are_not_joined() -> None:
    others = [
        chunk("b", "removed"),
        chunk("c", fromrepo="other"),
        chunk("d", hold=True),
        chunk("e", sources=[{"e": "salt://e.deb"}]),
        chunk("f", __agg__=True),
    ]
    assert "pkgs" not in joined(chunk("a"), *others)
    assert "pkgs" not in joined(chunk("a"), chunk("b"), running={"pkg_|-b_|-b_|-installed": {}})
    assert "pkgs" not in joined(chunk("a", "held"), chunk("b", "held"))


def test_sources_are_joined_with_sources() -> None:
    low = chunk("a", sources=[{"a": "salt://a.deb"}])
    other = chunk("b", sources=[{"b": "salt://b.deb"}])
    assert joined(low, other)["sources"] == [{"a": "salt://a.deb"}, {"b": "salt://b.deb"}]


def test_watch_does_not_fit_every_function() -> None:
    found = pkg.mod_watch(CONTEXT, "a", sfun="uptodate", __reqs__={})
    assert found.result is False and "pkg.uptodate does not work with the watch" in found.comment

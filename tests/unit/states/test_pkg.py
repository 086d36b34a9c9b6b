"""pkg: what needs no package manager."""

from typing import Any

from catena.states import pkg

CONTEXT: Any = None


def chunk(name: str, fun: str = "installed", **arguments: Any) -> dict[str, Any]:
    return {"state": "pkg", "__id__": name, "name": name, "fun": fun, **arguments}


def joined(low: dict[str, Any], *others: dict[str, Any], running: Any = ()) -> Any:
    low["__agg__"] = True
    return pkg.mod_aggregate(CONTEXT, low, [low, *others], running)


def test_packages_of_one_function_are_joined() -> None:
    others = [chunk("b", version="1"), chunk("c", pkgs=["d", {"e": "2"}, "a"])]
    assert joined(chunk("a"), *others)["pkgs"] == ["a", {"b": "1"}, "d", {"e": "2"}]
    assert all(other["__agg__"] for other in others)


def test_a_version_goes_into_the_list_with_its_name() -> None:
    low = joined(chunk("a", version="3"), chunk("b"))
    assert low["pkgs"] == [{"a": "3"}, "b"] and "version" not in low
    alone = joined(chunk("a", version="3"))
    assert alone["version"] == "3" and "pkgs" not in alone


def test_what_differs_stays_apart() -> None:
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

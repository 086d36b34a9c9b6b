"""Version ranges of npm; the expectations are those of the package semver 7."""

from __future__ import annotations

import pytest

from catena.modules.npm.semver import satisfies


@pytest.mark.parametrize(
    ("wanted", "inside", "outside"),
    [
        ("*", "0.0.1 2.0.0", "1.0.0-rc.1"),
        ("1.2.3", "1.2.3", "1.2.4 1.2.3-rc.1"),
        ("=v1.2.3", "1.2.3", "1.2.4"),
        ("1.2", "1.2.0 1.2.9", "1.3.0"),
        ("1.x", "1.0.0 1.9.9", "2.0.0 0.9.0"),
        ("^1.2.3", "1.2.3 1.9.0", "1.2.2 2.0.0 2.0.0-beta.1"),
        ("^0.2.3", "0.2.3 0.2.9", "0.3.0"),
        ("^0.0.3", "0.0.3", "0.0.4"),
        ("~1.2.3", "1.2.9", "1.3.0"),
        ("~1", "1.9.0", "2.0.0"),
        (">=1.2.3 <2", "1.2.3 1.9.9", "2.0.0 1.2.2"),
        (">= 1.0.0", "1.0.0", "0.9.9"),
        (">1.2", "1.3.0", "1.2.9"),
        ("<=1.2", "1.2.9", "1.3.0"),
        ("1.0.0 - 1.2", "1.0.0 1.2.9", "1.3.0"),
        ("<1.2.3 || >=2", "1.2.2 2.0.0", "1.2.3"),
        ("^1.2.3-rc.1", "1.2.3-rc.1 1.2.3-rc.2 1.3.0", "1.2.3-beta 1.2.4-rc.1"),
    ],
)
def test_version_is_in_a_range(wanted: str, inside: str, outside: str) -> None:
    assert [one for one in inside.split() if satisfies(one, wanted) is not True] == []
    assert [one for one in outside.split() if satisfies(one, wanted) is not False] == []


@pytest.mark.parametrize("tag", ["latest", "next", "npm:other@1", "1.2.3.4", "x" * 300])
def test_tag_is_no_range(tag: str) -> None:
    assert satisfies("1.0.0", tag) is None


def test_odd_version_is_in_no_range() -> None:
    assert satisfies("one", "*") is False

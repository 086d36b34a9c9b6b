"""Versions of RubyGems; the expectations are those of Gem::Version and Gem::Requirement."""

from __future__ import annotations

import pytest

from catena.core.errors import UsageError
from catena.modules.gem.functions import checked_gems, file_of
from catena.modules.gem.versions import compare, conditions, satisfies

ORDER = "0.9 1.0.a 1.0.a2 1.0.b1 1.0.pre 1.0 1.0.1 1.2 1.10 2.0.0-rc1 2".split()


def test_versions_are_ordered() -> None:
    for place, one in enumerate(ORDER):
        for other_place, other in enumerate(ORDER):
            expected = (place > other_place) - (place < other_place)
            assert compare(one, other) == expected, (one, other)
    assert compare("1.0", "1") == 0


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("1.2.3", "1.2.3", True),
        ("1.2.3", "= 1.2", False),
        ("1.2.3", ">=1.2, <2", True),
        ("2.0", ">= 1.2, < 2", False),
        ("1.2.9", "~> 1.2.3", True),
        ("1.3", "~> 1.2.3", False),
        ("1.9", "~> 1.2", True),
        ("2.0", "~> 1.2", False),
        ("2.0.a", "~> 1.2", False),
        ("1.0", "!= 1", False),
        ("1.1", ">1", True),
        ("1.0", "<= 1", True),
    ],
)
def test_version_meets_conditions(version: str, wanted: str, expected: bool) -> None:
    assert satisfies(version, conditions(wanted)) is expected


@pytest.mark.parametrize("text", ["x", "=> 1", ">= 1, ", "1 2"])
def test_senseless_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        conditions(text)


def test_names_and_files_of_gems_are_told_apart() -> None:
    assert checked_gems("rake bundler") == ["rake", "bundler"]
    assert file_of("/srv/foo-bar-1.2.3.gem") == ("foo-bar", "1.2.3")
    assert file_of("foo-bar") is None
    for name in ("--help", "a/b", "../x.gem", ""):
        with pytest.raises(UsageError):
            checked_gems([name])
    with pytest.raises(UsageError):
        checked_gems(None)

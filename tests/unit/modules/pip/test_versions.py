"""Versions and specifiers of PEP 440."""

from __future__ import annotations

import pytest

from catena.core.errors import UsageError
from catena.modules.pip.versions import Specifier, checked, parse, satisfies

#: From the oldest to the newest, as in PEP 440.
ORDER = """1.0.dev1 1.0a1.dev1 1.0a1 1.0b2 1.0rc1 1.0 1.0+local 1.0+local.1 1.0+5 1.0.post1.dev2
1.0.post1 1.1.dev0 1.1 1.1.1 1.2.alpha3 1.2-1 1.10 2.0rc1 v2.0 1!1.0""".split()


def test_versions_are_ordered() -> None:
    keys = [found.key() for text in ORDER if (found := parse(text)) is not None]
    assert len(keys) == len(ORDER)
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("text", ["", "x", "1.x", "1..0", "1.0 beta!", "9" * 300])
def test_other_text_is_no_version(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("version", "operator", "wanted", "expected"),
    [
        ("1.0", "==", "1.0.0", True),
        ("1.0+local", "==", "1.0", True),
        ("1.0", "==", "1.0+local", False),
        ("1.0.5", "==", "1.0.*", True),
        ("1.1", "==", "1.0.*", False),
        ("1", "==", "1.0.*", True),
        ("1.1", "!=", "1.0.*", True),
        ("1.4.5", "~=", "1.4", True),
        ("2.0", "~=", "1.4", False),
        ("1.5", "~=", "1.4.2", False),
        ("1.4.2.post1", "~=", "1.4.2", True),
        ("2.0rc1", "<", "2.0", False),
        ("2.0rc1", "<", "2.0rc2", True),
        ("2.0.post1", ">", "2.0", False),
        ("2.0.1", ">", "2.0", True),
        ("1.0", ">=", "1.0", True),
        ("1.0+x", "<=", "1.0", True),
        ("1!1.0", ">", "9", True),
        ("1.0", "===", "1.0", True),
        ("1.0", "===", "1.0.0", False),
        ("odd-version", "==", "odd-version", True),
        ("odd-version", ">=", "1.0", False),
        ("odd-version", "!=", "1.0", True),
    ],
)
def test_version_meets_a_condition(
    version: str, operator: str, wanted: str, expected: bool
) -> None:
    assert satisfies(version, [Specifier(operator, wanted)]) is expected


@pytest.mark.parametrize(("operator", "version"), [("==", "x.*"), (">=", "1.*"), ("~=", "1")])
def test_impossible_condition_is_refused(operator: str, version: str) -> None:
    with pytest.raises(UsageError):
        checked(operator, version, "name")

from __future__ import annotations

from typing import Any

import pytest

from catena.cli.arguments import split, value
from catena.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("007", 7),
        ("1:30", 90),
        ("on", True),
        ("no", False),
        ("1e3", "1e3"),
        ("web1.example.org", "web1.example.org"),
        ("/etc/passwd", "/etc/passwd"),
        ("", ""),
        ("# not a comment", "# not a comment"),
        ("x #y", "x #y"),
        ("'x' # y", "'x' # y"),
        ("5 # y", 5),
        ("[1] # y", [1]),
        ("{a: 1}", {"a": 1}),
        ("[1, two]", [1, "two"]),
        ("null", None),
        ("None", None),
        ("a: b", "a: b"),
        ("- a", "- a"),
        ("1_000", "1_000"),
        ("2026-01-02", "2026-01-02"),
        ("a: b: c", "a: b: c"),
        ("*", "*"),
        ("|", "|"),
        (">=1.0", ">=1.0"),
        ("two\nlines", "two\nlines"),
        ("3.5", 3.5),
    ],
)
def test_argument_is_parsed_as_salt_parses_it(text: str, expected: Any) -> None:
    assert value(text) == expected


def test_argument_with_a_name_and_an_equals_sign_is_a_keyword() -> None:
    assert split(["x", "a=1", "b=c=d", "/p=1", "2=3"]) == (
        ["x", "/p=1", "2=3"],
        {"a": 1, "b": "c=d"},
    )


def test_repeated_keyword_is_refused() -> None:
    with pytest.raises(UsageError, match="a= is given twice"):
        split(["a=1", "a=2"])


def test_keywords_are_distinguished_from_positional_arguments_as_in_salt() -> None:
    args, kwargs = split(["a==b", "x.y=1", "x-y=two", "_z=", "é=3", "1=2", "-a=b", "a=b=c"])
    assert args == ["a==b", "1=2", "-a=b"]
    assert kwargs == {"x.y": 1, "x-y": "two", "_z": "", "é": 3, "a": "b=c"}


@pytest.mark.parametrize("word", ["\udcff", "a=\udcff", "{a: \udcff}"])
def test_argument_that_is_not_utf_8_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match=r"\\xff.* is not UTF-8 text"):
        split([word])

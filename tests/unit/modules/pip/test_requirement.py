"""Requirements of pip."""

from __future__ import annotations

import pytest

from catena.core.errors import UsageError
from catena.modules.pip.requirement import parse, parse_lines, split_list


@pytest.mark.parametrize(
    ("line", "name", "conditions"),
    [
        ("Django>=2,<3", "django", [">=2", "<3"]),
        ("foo[bar, baz] ~= 1.4", "foo", ["~=1.4"]),
        ("zope.interface (>=1)", "zope-interface", [">=1"]),
        ("a;python_version<'3'", "a", []),
        ("a==1.* ; os_name == 'posix'", "a", ["==1.*"]),
        ("Foo_Bar @ https://host/x.whl", "foo-bar", []),
        ("git+https://host/r.git@v1#egg=Foo_Bar&subdirectory=x", "foo-bar", []),
        ("git+https://host/r.git", "", []),
        ("/tmp/one_pkg-1.0-py3-none-any.whl", "one-pkg", ["==1.0"]),
        ("https://host/a/foo-1.2.tar.gz", "foo", ["==1.2"]),
        ("https://host/archive/main.zip", "", []),
        ("./dir", "", []),
    ],
)
def test_requirement_is_read(line: str, name: str, conditions: list[str]) -> None:
    found = parse(line)
    assert (found.name, [str(one) for one in found.specifiers]) == (name, conditions)
    assert found.line == line


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("a=1", "'=' is not supported, use '==' instead"),
        ("--index-url=x", "is an option"),
        ("a>>1", "'>1' in 'a>>1' is no version"),
        ("a 1", "is no condition"),
        ("", "is no requirement"),
        ("a\n-r x", "is no requirement"),
        ("?", "is no requirement"),
    ],
)
def test_mistake_is_named(line: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse(line)


def test_commas_separate_requirements_but_not_conditions() -> None:
    assert split_list("a[b,c]>=1,<2,d, e>=1;<2") == ["a[b,c]>=1,<2", "d", "e>=1,<2"]


def test_requirements_file_is_read_unless_it_has_options() -> None:
    text = "# comment\na==1 \\\n  --hash=sha256:00\n\nb>=2  # more\n"
    assert [one.name for one in parse_lines(text) or []] == ["a", "b"]
    assert parse_lines("a\n-r other.txt\n") is None

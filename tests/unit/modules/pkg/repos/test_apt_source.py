"""Lines of sources.list: parse, write, compare."""

from __future__ import annotations

import pytest

from catena.core.errors import UsageError
from catena.modules.pkg.repos.apt_source import (
    AptSource,
    OneLineText,
    best_match,
    checked_source,
    equivalent,
    in_plain_form,
    line_of,
    named_source,
    parse_line,
)

LINES = [
    "deb http://a.example/debian bookworm main",
    "deb-src http://a.example/debian bookworm main contrib",
    "deb [arch=amd64 signed-by=/k.gpg] https://a.example/x stable main",
    "deb [trusted=yes] file:/repo ./",
    "# deb http://off.example/ x main",
    "deb http://a.example/ x main #why it is here",
    "deb cdrom:[Debian GNU/Linux 12 _Bookworm_ - amd64]/ bookworm main",
    "deb http://a.example/#fragment x main",
]


@pytest.mark.parametrize("line", LINES)
def test_line_is_written_as_it_was_read(line: str) -> None:
    source = parse_line(line)
    assert source is not None and line_of(source) == line


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# a comment",
        "# deb packages are fine",
        "deb",
        "deb http://a.example",
        "debs http://a.example x main",
        "deb [arch=amd64 http://a.example x main",
        "deb [arch] http://a.example x main",
        "rpm http://a.example x main",
        "Types: deb",
    ],
)
def test_other_text_is_no_source(line: str) -> None:
    assert parse_line(line) is None


def test_parts_of_a_line_are_found() -> None:
    source = named_source("  #deb  [ arch=amd64,i386  trusted=yes ]  http://a.example/  x  main  ")
    assert source == AptSource(
        "deb", "http://a.example/", "x", ("main",),
        (("arch", "amd64,i386"), ("trusted", "yes")), disabled=True,
    )  # fmt: skip
    assert source.architectures() == ["amd64", "i386"]


@pytest.mark.parametrize("name", ["", "nothing", "deb http://a.example", "deb http://a x m\ndeb"])
def test_name_that_is_no_line_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="complete repo entry"):
        named_source(name)


@pytest.mark.parametrize(
    "source",
    [
        AptSource("deb", "http://a.example", "x y", ("main",)),
        AptSource("deb", "http://a.example", "x", ("main\ndeb http://evil.example y",)),
        AptSource("deb", "http://a.example", "x", ("main",), (("signed-by", "/k]"),)),
        AptSource("deb", "http://a.example", "x"),
        AptSource("deb", "http://a.example", "x/", ("main",)),
    ],
)
def test_source_that_apt_can_not_read_is_refused(source: AptSource) -> None:
    with pytest.raises(UsageError, match=r"http://a\.example"):
        checked_source(source)


def test_sources_are_compared_without_order_and_spelling() -> None:
    one = named_source("deb [arch=amd64,i386 trusted=yes] http://a.example/ x main contrib")
    two = named_source("deb [trusted=yes arch=i386,amd64]  http://a.example x contrib main #note")
    assert equivalent(one, two)
    for other in (
        "deb [arch=amd64 trusted=yes] http://a.example x main contrib",
        "deb [arch=amd64,i386] http://a.example x main contrib",
        "# deb [arch=amd64,i386 trusted=yes] http://a.example x main contrib",
        "deb [arch=amd64,i386 trusted=yes] http://a.example x main",
        "deb-src [arch=amd64,i386 trusted=yes] http://a.example x main contrib",
    ):
        assert not equivalent(one, named_source(other))


def test_options_in_the_order_of_salt_are_plain() -> None:
    assert in_plain_form(named_source("deb [arch=amd64 signed-by=/k] http://a.example x main"))
    assert in_plain_form(named_source("deb http://a.example x main"))
    assert not in_plain_form(named_source("deb [signed-by=/k arch=amd64] http://a.example x main"))
    assert not in_plain_form(named_source("deb [trusted=yes] http://a.example x main"))


TEXT = """\
# deb packages, by hand
deb   http://a.example/ x   main  # odd
garbage

# deb http://a.example/ x main
deb [arch=i386] http://a.example/ x main"""


def test_other_lines_stay_as_they_are() -> None:
    text = OneLineText(TEXT)
    assert text.text() == TEXT
    first = text.sources()[0]
    text.put(first, named_source("deb http://a.example/ x main contrib"))
    text.add(named_source("deb http://b.example/ y main"))
    assert text.text() == TEXT.replace(
        "deb   http://a.example/ x   main  # odd", "deb http://a.example/ x main contrib"
    ) + "\ndeb http://b.example/ y main\n"  # fmt: skip


def test_best_match_has_the_same_architecture_and_is_enabled() -> None:
    sources = OneLineText(TEXT).sources()
    plain = best_match(named_source("deb http://a.example x main"), sources)
    assert plain is not None and plain.place == 1
    other = best_match(named_source("deb [arch=i386] http://a.example x main"), sources)
    assert other is not None and other.place == 5
    assert best_match(named_source("deb http://a.example y main"), sources) is None
    assert best_match(named_source("deb http://a.example x other"), sources) is None

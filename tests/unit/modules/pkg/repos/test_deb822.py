"""Files of stanzas: parse, change in place, divide."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from catena.core.frozen import replace
from catena.modules.pkg.repos.apt_source import PlacedSource, named_source
from catena.modules.pkg.repos.deb822 import StanzaText

TEXT = """\
# Made by the installer.
Types: deb deb-src
URIs: http://a.example/debian
Suites: x x-updates
# The free part only.
Components:  main   contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEawRj
 -----END PGP PUBLIC KEY BLOCK-----
X-Note: stays


Types: deb
URIs: http://b.example/
Suites: ./
enabled: no
Architectures: amd64 i386
"""


@dataclass(frozen=True)
class Case:
    line: str
    text: str


def the(text: StanzaText, line: str) -> PlacedSource:
    return next(one for one in text.sources() if one.line == line)


def test_unchanged_text_is_written_as_it_was_read() -> None:
    assert StanzaText(TEXT).text() == TEXT
    assert StanzaText(TEXT.rstrip("\n")).text() == TEXT
    assert StanzaText("").text() == ""


def test_every_type_and_suite_is_a_source() -> None:
    found = StanzaText(TEXT).sources()
    assert [one.line for one in found] == [
        "deb http://a.example/debian x main contrib",
        "deb http://a.example/debian x-updates main contrib",
        "deb-src http://a.example/debian x main contrib",
        "deb-src http://a.example/debian x-updates main contrib",
        "# deb [arch=amd64,i386] http://b.example/ ./",
    ]
    assert found[0].types == ("deb", "deb-src") and found[0].suites == ("x", "x-updates")
    assert found[0].source.option("signed-by").startswith("-----BEGIN PGP")
    assert found[4].source.disabled and found[4].source.comment == ""


def test_only_changed_fields_are_written() -> None:
    text = StanzaText(TEXT)
    old = the(text, "# deb [arch=amd64,i386] http://b.example/ ./")
    options = (("arch", "amd64"), ("trusted", "yes"))
    text.put(old, replace(old.source, disabled=False, options=options))
    assert text.text() == TEXT.replace("enabled: no", "Enabled: yes").replace(
        "Architectures: amd64 i386\n", "Architectures: amd64\nTrusted: yes\n"
    )


def test_stanza_is_divided_when_one_of_its_sources_changes() -> None:
    text = StanzaText(TEXT)
    old = the(text, "deb http://a.example/debian x main contrib")
    text.put(old, replace(old.source, comps=("main",)))
    lines = {one.line for one in text.sources()}
    assert lines == {
        "deb http://a.example/debian x main",
        "deb http://a.example/debian x-updates main contrib",
        "deb-src http://a.example/debian x main contrib",
        "deb-src http://a.example/debian x-updates main contrib",
        "# deb [arch=amd64,i386] http://b.example/ ./",
    }
    assert text.text().count("-----BEGIN PGP") == 3 and text.text().count("X-Note: stays") == 3
    assert text.text().endswith(TEXT[TEXT.index("\n\nTypes") :])


def test_source_is_removed_and_others_stay() -> None:
    text = StanzaText(TEXT)
    text.put(the(text, "# deb [arch=amd64,i386] http://b.example/ ./"), None)
    assert text.text() == TEXT[: TEXT.index("Types: deb\n")]
    for kind in ("deb", "deb-src"):
        text.put(the(text, f"{kind} http://a.example/debian x main contrib"), None)
    assert [one.line for one in text.sources()] == [
        "deb-src http://a.example/debian x-updates main contrib",
        "deb http://a.example/debian x-updates main contrib",
    ]


@pytest.mark.parametrize("text", ["", TEXT, TEXT.rstrip("\n")])
def test_new_source_is_a_stanza_of_its_own(text: str) -> None:
    made = StanzaText(text)
    made.add(named_source("# deb [arch=amd64,i386 signed-by=/k] http://c.example/ y main #why"))
    stanza = """\
# why
Types: deb
URIs: http://c.example/
Suites: y
Components: main
Architectures: amd64 i386
Signed-By: /k
Enabled: no
"""
    assert made.text() == (f"{TEXT}\n{stanza}" if text else stanza)
    assert made.sources()[-1].source.comment == "why"
    assert StanzaText(made.text()).text() == made.text()

"""Text of `.repo` files."""

from __future__ import annotations

import pytest

from catena.modules.pkg.repos.repo_text import RepoText

TEXT = """\
# top

[a]
name = The first
# why
baseurl=http://a.example/
    http://b.example/
odd line
; old
enabled=0

[b]
name: The second"""


@pytest.mark.parametrize("text", ["", "\n", f"{TEXT}\n", "[a]\n\n\n"])
def test_unchanged_text_is_written_as_it_was_read(text: str) -> None:
    assert RepoText(text).text() == text


def test_sections_options_and_comments_are_found() -> None:
    text = RepoText(TEXT)
    assert text.sections() == ["a", "b"]
    assert text.options("a") == {
        "name": "The first",
        "baseurl": "http://a.example/\nhttp://b.example/",
        "enabled": "0",
    }
    assert text.comments("a") == ["why", "old"]
    assert text.options("b") == {"name": "The second"}
    assert text.options("c") == {}


def test_only_the_set_option_changes() -> None:
    text = RepoText(TEXT)
    text.set("a", "enabled", "1")
    text.set("a", "baseurl", "http://c.example/")
    text.set("a", "gpgcheck", "1")
    text.set("b", "name", None)
    text.set("c", "baseurl", "x\ny")
    assert text.text() == (
        "# top\n\n[a]\nname = The first\n# why\nbaseurl=http://c.example/\nodd line\n; old\n"
        "enabled=1\ngpgcheck=1\n\n[b]\n\n[c]\nbaseurl=x\n    y\n"
    )
    assert text.options("c") == {"baseurl": "x\ny"}


def test_section_is_removed_with_its_comments() -> None:
    text = RepoText(TEXT)
    text.remove("a")
    assert text.text() == "# top\n\n[b]\nname: The second\n"


def test_comments_are_replaced() -> None:
    text = RepoText(TEXT)
    text.set_comments("a", ["new"])
    assert text.comments("a") == ["new"]
    assert text.options("a") == RepoText(TEXT).options("a")

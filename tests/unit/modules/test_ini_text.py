from __future__ import annotations

import pytest

from catena.modules.ini_text import IniText

TEXT = "# top\n[a]\nx = 1\n; kept\ny=2\n   more\n\n[b]\nz: 3\n"


def test_options_are_read_with_their_further_lines() -> None:
    ini = IniText(TEXT)
    assert ini.sections() == ["", "a", "b"]
    assert ini.options("a") == {"x": "1", "y": "2\nmore"}
    assert ini.options("b") == {} and IniText(TEXT, ":").options("b") == {"z": "3"}


def test_only_the_option_that_is_set_changes() -> None:
    ini = IniText(TEXT)
    ini.set("a", "x", "9")
    assert ini.text() == TEXT.replace("x = 1", "x = 9").replace("# top\n", "# top\n\n")


def test_what_is_missing_comes_to_the_end_of_its_section() -> None:
    ini = IniText(TEXT)
    ini.set("a", "new", "1")
    ini.set("c", "k", "v")
    assert ini.text().endswith("   more\nnew = 1\n\n[b]\nz: 3\n\n[c]\nk = v\n")


def test_what_is_removed_takes_its_further_lines_along() -> None:
    ini = IniText(TEXT)
    assert ini.remove("a", "y") == "2\nmore" and ini.remove("a", "y") is None
    assert ini.remove_section("b") == {}
    assert ini.text() == "# top\n\n[a]\nx = 1\n; kept\n"


@pytest.mark.parametrize(("separator", "line"), [("=", "k = v"), (":", "k : v"), (" ", "k v")])
def test_the_separator_is_kept(separator: str, line: str) -> None:
    ini = IniText("", separator)
    ini.set("", "k", "v")
    assert ini.text() == f"{line}\n"
    assert IniText(ini.text(), separator).get("", "k") == "v"

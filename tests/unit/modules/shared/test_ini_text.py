from __future__ import annotations

import pytest

from catena.modules.shared.ini_text import IniText

TEXT = "# top\n[a]\nx = 1\n; kept\ny=2\n   more\n\n[b]\nz: 3\n"


def test_options_are_read_with_their_further_lines() -> None:
    ini = IniText(TEXT)
    assert ini.sections() == ["", "a", "b"]
    assert ini.options("a") == {"x": "1", "y": "2\nmore"}
    assert ini.options("b") == {} and IniText(TEXT, ":").options("b") == {"z": "3"}


def test_changed_file_is_written_in_one_form() -> None:
    ini = IniText("k=0\n[a]\n\n\tx=1\n\ty = two\n\n\n[b]\nz=3")
    assert ini.options("a") == {"x": "1", "y": "two"}
    ini.set("a", "x", "9")
    assert ini.text() == "k = 0\n\n[a]\nx = 9\ny = two\n\n[b]\nz = 3\n"


def test_set_option_replaces_its_comment() -> None:
    ini = IniText("[a]\n#x = 1\ny = 2\n")
    ini.set("a", "x", "5")
    assert ini.text() == "[a]\nx = 5\ny = 2\n"


def test_set_replaces_all_lines_of_an_option() -> None:
    ini = IniText("[a]\nx = 1\ny = 2\nx = 3\n")
    ini.set("a", "x", "5")
    assert ini.text() == "[a]\nx = 5\ny = 2\n"


def test_set_appends_a_missing_option_to_its_section() -> None:
    ini = IniText(TEXT)
    ini.set("a", "new", "1")
    ini.set("c", "k", "v")
    assert ini.text().endswith("   more\nnew = 1\n\n[b]\nz: 3\n\n[c]\nk = v\n")


def test_remove_drops_continuation_lines() -> None:
    ini = IniText(TEXT)
    assert ini.remove("a", "y") == "2\nmore" and ini.remove("a", "y") is None
    assert ini.remove_section("b") == {}
    assert ini.text() == "# top\n\n[a]\nx = 1\n; kept\n"


@pytest.mark.parametrize(("separator", "line"), [("=", "k = v"), (":", "k : v"), (" ", "k v")])
def test_separator_is_kept(separator: str, line: str) -> None:
    ini = IniText("", separator)
    ini.set("", "k", "v")
    assert ini.text() == f"{line}\n"
    assert IniText(ini.text(), separator).get("", "k") == "v"

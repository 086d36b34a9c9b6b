"""The outputs raw, pprint, table and key, compared with what Salt 3008.5 prints."""

from __future__ import annotations

from ast import literal_eval

import pytest

from catena.cli.output import renderer


def lines(name: str, value: object) -> list[str]:
    return renderer(name)("web1", value, False).split("\n")


def test_raw_is_one_line_that_python_reads_back() -> None:
    value = {"a": [1, None, "x\x1b[2J\u202e"], "b": True}
    (line,) = lines("raw", value)
    assert literal_eval(line) == {"web1": value}
    assert "\x1b" not in line and "\u202e" not in line


def test_pprint_breaks_long_values() -> None:
    value = {"a": [1, None, "x" * 60], "b": "y" * 60, "c": {"d": 1}}
    shown = lines("pprint", value)
    assert shown[0] == "{'web1': {'a': [1,"
    assert shown[1] == "                None,"
    assert literal_eval("\n".join(shown)) == {"web1": value}


def test_table_shows_mappings_under_sorted_titles() -> None:
    assert lines("table", [{"b": 2.5, "abc": None}, {"abc": "long", "b": True}]) == [
        "web1:",
        "----------",
        "    ---------------",
        "    | Abc  |  B   |",
        "    ---------------",
        "    | None | 2.5  |",
        "    ---------------",
        "    | long | True |",
        "    ---------------",
    ]


def test_table_shows_plain_values_below_their_keys() -> None:
    assert lines("table", {"k1": ["a", "bbb"]}) == [
        "web1:",
        "----------",
        "    k1:",
        "    ----------",
        "        -------",
        "        |  a  |",
        "        -------",
        "        | bbb |",
        "        -------",
    ]


def test_table_keeps_columns_that_the_first_row_lacks() -> None:
    shown = "\n".join(lines("table", [{"a": 1}, {"b": 2}]))
    assert "| A | B |" in shown
    assert "| 1 |   |" in shown
    assert "|   | 2 |" in shown


def test_table_keeps_every_line_of_a_cell() -> None:
    assert lines("table", [{"a": "xx\nyyyy", "b": 1}])[5:7] == [
        "    |  xx  | 1 |",
        "    | yyyy |   |",
    ]


@pytest.mark.parametrize("value", ["text", True, None, [[1, 2]], {"a": {"b": "text"}}, {}, []])
def test_table_shows_what_is_no_table_as_nested_does(value: object) -> None:
    shown = "\n".join(lines("table", value))
    for word in ("text", "True", "None", "2"):
        assert (word in shown) == (word in str(value))


def test_key_shows_lists_in_salts_order_and_words() -> None:
    found = {"minions_rejected": {"z": "aa:bb"}, "minions_pre": ["c"], "minions": ["b", "a"]}
    assert lines("key", found) == [
        "web1:",
        "    Accepted Keys:",
        "    a",
        "    b",
        "    Unaccepted Keys:",
        "    c",
        "    Rejected Keys:",
        "    z:  aa:bb",
    ]


@pytest.mark.parametrize("value", ["text", ["a"], {}, {"minions": "a"}, {"minions": [], "x": []}])
def test_key_shows_other_values_as_nested_does(value: object) -> None:
    assert lines("key", value) == lines("nested", value)


@pytest.mark.parametrize("name", ["table", "key"])
def test_text_of_a_host_cannot_leave_its_indentation(name: str) -> None:
    said = {"minions": ["a\nweb2:\x1b"]}
    shown = lines(name, said)
    assert [line for line in shown if not line.startswith((" ", "-"))] == ["web1:"]
    assert "\x1b" not in "\n".join(shown)

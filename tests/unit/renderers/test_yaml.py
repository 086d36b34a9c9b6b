from __future__ import annotations

from typing import Any

import pytest

from catena.core.errors import LimitError
from catena.core.types import SourceLine
from catena.renderers import yaml
from catena.renderers.source import DuplicateKeyError, LineMap, YamlFaultError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("0644", 644),
        ("00", 0),
        ("0x1F", 31),
        ("08", "08"),
        ("1e3", "1e3"),
        ("1.5", 1.5),
        ("190:20:30", 685230),
        ("2020-01-02", "2020-01-02"),
        ("2020-01-02 03:04:05", "2020-01-02 03:04:05"),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("'0644'", "0644"),
        ("=", "="),
        ("!!binary aGk=", b"hi"),
        ("!!set {a, b}", {"a", "b"}),
        ("!!omap [z: 1, a: 2]", {"z": 1, "a": 2}),
        ("", None),
    ],
)
def test_scalars_are_read_as_salt_reads_them(text: str, value: Any) -> None:
    found = yaml.load(text)
    assert found == value
    assert type(found) is type(value)


def test_keys_keep_their_order() -> None:
    assert list(yaml.load("z: 1\na: 2\nm: 3\n")) == ["z", "a", "m"]


def test_merge_keys_give_what_the_mapping_itself_lacks() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\nv:\n  y: own\n  <<: [*b, *m]\n"
    assert yaml.load(text)["v"] == {"x": 1, "y": "own", "z": 4}


def test_values_of_aliases_are_not_shared() -> None:
    data = yaml.load("a: &x [1]\nb: *x\n")
    data["a"].append(2)
    assert data["b"] == [1]


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: 1\na: 2\n", 2), ("x:\n  - b: 1\n    c: 2\n    b: 3\n", 4), ("1: a\ntrue: b\n", 2)],
)
def test_key_that_is_there_twice_is_an_error_with_its_line(text: str, line: int) -> None:
    with pytest.raises(DuplicateKeyError) as caught:
        yaml.load(text, "salt://t.sls")
    assert caught.value.place == SourceLine("salt://t.sls", line)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("x:\n  y:\n    - a\n   - b\n", 4, "did not find expected key"),
        ("x:\n\t- a\n", 2, "a tab"),
        ('x:\n  - "open\n', 2, "unexpected end of stream"),
        ("x: echo a: b\n", 1, "mapping values are not allowed"),
        ("a: {{ b }}\n", 1, "unquoted or not rendered"),
        ("a: !!python/object/apply:os.system [id]\n", 1, "not allowed"),
        ("a: !custom b\n", 1, "is not allowed"),
        ("a: 1\nb: \x01\n", 2, "U+0001"),
        ("a: *nope\n", 1, "undefined alias"),
        ("a: 1\n---\nb: 2\n", 2, "found another one"),
        ("a: &x [*x]\n", 1, "contains it"),
        ("a: !!int abc\n", 1, "is not a int"),
    ],
)
def test_faults_name_their_line_and_show_it(text: str, line: int, reason: str) -> None:
    with pytest.raises(YamlFaultError) as caught:
        yaml.load(text, "salt://t.sls")
    assert caught.value.place.line == line
    assert reason in str(caught.value)
    assert f"salt://t.sls:{line}" in str(caught.value)


def test_lines_around_a_fault_are_shown_with_a_mark() -> None:
    with pytest.raises(YamlFaultError) as caught:
        yaml.load("a: 1\nb: x: y\nc: 2\n", "f")
    assert str(caught.value).splitlines()[1:] == ["  1 | a: 1", "> 2 | b: x: y", "  3 | c: 2"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_000 + "]" * 5_000,
        "- " * 5_000 + "a",
        "\n".join(" " * n + "a:" for n in range(2_000)),
    ],
)
def test_nesting_is_limited(text: str) -> None:
    with pytest.raises((LimitError, YamlFaultError), match="nested deeper"):
        yaml.load(text)


def test_depth_that_people_write_is_read() -> None:
    assert yaml.load("[" * 150 + "]" * 150)


def test_aliases_that_multiply_end_at_the_limit() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(LimitError, match="more than"):
        yaml.load("\n".join(rows))


def test_merges_of_merges_cost_what_they_give() -> None:
    rows = ["a0: &a0 {x: 1}"]
    rows += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 9)]
    assert yaml.load("\n".join(rows))["a8"] == {"x": 1}


def test_alias_has_the_lines_of_what_it_names_and_a_merged_key_too() -> None:
    text = "a: &x\n  - b: 1\nc: *x\nd: &y {e: 2}\nf:\n  <<: *y\n  g: 3\nh:\n  - *x\n"
    lines = dict(yaml.load_rendered(text, "f", text, LineMap()).lines)
    assert (lines["c",], lines["c", 0], lines["c", 0, "b"]) == (3, 2, 2)
    assert (lines["f", "e"], lines["f", "g"], lines["h", 0], lines["h", 0, 0]) == (4, 7, 9, 2)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: &x 1\nb: &x 2\n", 2, "&x is there twice, first in line 1"),
        ("a: 1\n<<: [1]\n", 2, "<< takes a mapping"),
        ("a: &x {b: 1}\nc:\n  *x : 1\n", 3, "can't be a key"),
        ("!!map [a]\n", 1, "not allowed on a list"),
        ("!!seq {a: b}\n", 1, "not allowed on a mapping"),
    ],
)
def test_error_beyond_the_yaml_parser_names_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(YamlFaultError) as caught:
        yaml.load(text, "f")
    assert caught.value.place.line == line
    assert reason in str(caught.value)


def test_every_key_and_item_knows_its_line() -> None:
    text = "a:\n  - b: 1\n  -\n    c: 2\nd: {e: 3}\n"
    rendered = yaml.load_rendered(text, "f", text, LineMap())
    assert rendered.place("a", 1, "c") == SourceLine("f", 4)
    assert rendered.place("d", "e") == SourceLine("f", 5)
    assert rendered.place("a", 0, "nothing", "here") == SourceLine("f", 2)
    assert rendered.place("gone") == SourceLine("f")


def test_lines_are_those_of_the_source() -> None:
    rendered = yaml.load_rendered("a: 1\nb: 2\n", "f", "", LineMap((10, 20)))
    assert dict(rendered.lines) == {("a",): 10, ("b",): 20}


def test_dump_keeps_order_and_writes_unknown_things_as_text() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    shared = [1]
    text = yaml.dump({"z": shared, "a": (1, 2), "o": Odd(), "s": shared})
    assert text == "z:\n- 1\na:\n- 1\n- 2\no: odd\ns:\n- 1\n"
    assert yaml.load(text) == {"z": [1], "a": [1, 2], "o": "odd", "s": [1]}

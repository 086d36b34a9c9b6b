"""The fast YAML reader returns what the general parser returns."""

from __future__ import annotations

import random
from pathlib import Path
from typing import List

import pytest

from catena.renderers import yaml_builder, yaml_lines, yaml_parser
from catena.renderers.source import LineMap, SourceError
from tests.support import packs

ROOT = Path(__file__).resolve().parents[3]
KEYS = (
    "a", "b", "c", "name", "test.nop", "/etc/x", "1", "01", "yes", "~", "x y", "k:v", "a#b", "'q'",
    '"d"', "'it''s'", "-a", "<<", "=", "?", "key ", "é", "1.5", "a,b", 'a"b', "...", "---", "$x",
    "a b: c", "[x]", "{a}", "!t", "&a", "*a", "%d", "@x", "|", "x" * 1010,
)  # fmt: skip
VALUES = (
    "", "1", "01", "010", "08", "-1", "+1", "-01", "1.0", "1.", "-0.0", ".5", "1e3", "1.0e+3",
    "1_0", "0x1f", "0b1", "0o7", "12:30", "1:2:3.5", "2001-01-01", "yes", "No", "TRUE", "tRue",
    "on", "Off", "NULL", "~", "=", "<<", ".inf", ".nan", "a b", "a: b", "a:", "a #c", "a#c", "# c",
    "'x'", "'x' # c", "'it''s'", "'a: b'", "'x", '"x"', '"a\\nb"', '"x" y', "[]", "{}", "[a, b]",
    "[1, 2]", "[a b]", "[a: b]", "{a: b}", "[yes, 01]", "[a,]", "[[a]]", "|", "|-", "|+", ">",
    "|2", "!!str 1", "&x a", "*x", "- a", "-", "-a", "---", "...", "? x", "http://x/y", "10.0.0.1",
    "::1", "C:\\x", "%a", "@a", "`a`", "{{ x }}", "a'b", "a, b", "a]", "(x)", "~x", "1 2", "00",
    "12345678901234567890", "  x  ", "é", "\u2013", "x\ty", "0644", "2.7.1", "\u2028", "\u00a0",
)  # fmt: skip
WHOLE_LINES = ("", "  ", "# c", "   # c", "---", "...", "\t", "%YAML 1.1", "--- # c")


def some_text(chance: random.Random) -> str:
    """Return a text that is nearly, and often really, YAML."""
    lines: List[str] = []
    column = 0
    for _ in range(chance.randint(1, 9)):
        if chance.random() < 0.05:
            lines.append(chance.choice(WHOLE_LINES))
            continue
        column = max(0, column + chance.choice((0, 0, 0, 2, 2, 4, -2, -2, -4, 1)))
        line = " " * column
        if chance.random() < 0.3:
            line += chance.choice(("- ", "- ", "-  ", "-"))
        if chance.random() < 0.75:
            line += chance.choice(KEYS if chance.random() < 0.3 else "abcdefgh") + ":"
            if chance.random() < 0.5:
                line += chance.choice((" ", " ", "  ", "")) + chance.choice(VALUES)
        else:
            line += chance.choice(VALUES)
        lines.append(line)
    return "\n".join(lines) + chance.choice(("\n", "\n", "\n", ""))


def assert_read_alike(text: str) -> bool:
    """Compare what both readers make of *text*; return whether the reader of lines reads it."""
    found = yaml_lines.read(text)
    if found is None:
        return False
    try:
        wanted = yaml_parser.parse(text, "f", text, LineMap())
    except SourceError as error:
        pytest.fail(f"read a faulty text {text!r}: {error}")
    assert repr(found[0]) == repr(wanted.data), text
    assert dict(yaml_lines.YamlLines(found[1])) == wanted.lines, text
    return True


@pytest.mark.parametrize("seed", range(8))
def test_quick_reader_gives_the_values_of_the_general_parser(seed: int) -> None:
    chance = random.Random(seed)
    assert sum(assert_read_alike(some_text(chance)) for _ in range(4000)) > 100


def test_trees_of_the_tests_are_read_alike_and_mostly_here() -> None:
    cases = ROOT / "tests" / "cases"
    texts = [path.read_text("utf-8") for path in cases.rglob("*.yaml")]
    for name in packs.names(cases / "salt"):
        files = packs.files(cases / "salt", name)
        texts += [data.decode() for path, data in files.items() if path.endswith(".yaml")]
    read = [assert_read_alike(text) for text in texts if len(text) < 50_000]
    assert any(read)


def test_forms_of_an_sls_file_are_read_here() -> None:
    text = """\
# A comment.
---
include:
- common

'quoted id':
  file.managed:
    - name: /etc/motd   # the usual place
    - mode: '0644'
    - names: [a, b.c]
    - context: {}
    - contents: |

        Hello
          World

    - require:
      - pkg: motd
      - user
    - watch_in: []
motd:
  pkg.installed
"""
    assert assert_read_alike(text)


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "a\n", "- a\n", "a: 1\na: 2\n", "a: [\n", "a: &b c\n", "a: 1\n b: 2\n",
     "a: 'x\n  y'\n", "a: b\n  c\n", "a:\tb\n", "a: b\r\n", "---\n---\na: 1\n", "a: >\n  b\n",
     "a: |\n  b", "x:\n  <<: {a: 1}\n"],
)  # fmt: skip
def test_other_forms_are_parsed_by_the_general_parser(text: str) -> None:
    assert yaml_lines.read(text) is None


def test_lines_are_those_of_the_source() -> None:
    found = yaml_lines.read("a:\n  - b\nc: 1\n")
    assert found is not None
    lines = yaml_lines.YamlLines(found[1], (10, 20, 30))
    assert dict(lines) == {("a",): 10, ("a", 0): 20, ("c",): 30}
    assert len(lines) == 3
    assert lines.get(("a", 1)) is None
    assert lines.get(("a", 0, "b")) is None
    assert lines.get(()) is None


def test_text_may_be_as_large_and_deep_as_the_general_parser_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "a: [b, c]\nd:\n  - e: f\n"
    # Two mappings, two lists, three keys and three texts.
    for limit, is_read in ((10, True), (9, False)):
        monkeypatch.setattr(yaml_lines, "_MAX_VALUES", limit)
        monkeypatch.setattr(yaml_builder, "MAX_NODES", limit)
        assert assert_read_alike(text) is is_read
        if not is_read:
            with pytest.raises(SourceError, match="more than"):
                yaml_parser.parse(text, "f", text, LineMap())
    deep = "".join(" " * depth + "a:\n" for depth in range(150))
    assert yaml_lines.read(deep) is None

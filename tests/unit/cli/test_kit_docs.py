"""The examples in the pages about tests, states, modules and grains work as written."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from catena.cli import commands
from catena.cli.testing.systems import SYSTEMS
from catena.cli.testing.templates import TEMPLATES

HOWTO = Path(__file__).parents[3] / "docs" / "howto"


def block_after(page: str, text: str) -> str:
    """Return the first indented block of a page after *text*."""
    written = (HOWTO / page).read_text(encoding="utf-8").split(text, 1)[1]
    found = re.search(r"\n\n((?:(?:    .*)?\n)+)", written)
    assert found is not None
    return dedent(found[1]).strip("\n") + "\n"


def test_first_test_of_the_page_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("web/init.sls", "tests/web_test.yaml"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(block_after("test-your-states.md", f"`{path}`"))
    monkeypatch.chdir(tmp_path)
    assert commands.run(["test", "."]) == 1
    expected = block_after("test-your-states.md", "Run the tests with `catena test .`:")
    assert capsys.readouterr().out == expected


def test_page_lists_the_systems() -> None:
    page = (HOWTO / "test-your-states.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"\| `system` \| grains of a system: (.+) \|", page)
    assert re.findall(r"`([^`]+)`", row) == list(SYSTEMS)


@pytest.mark.parametrize(
    ("page", "start", "kind", "path", "name"),
    [
        ("write-a-state.md", "def written", "state", "_states/NAME.py", "greeting"),
        ("write-a-module.md", "def greet", "module", "_modules/NAME.py", "greeting"),
        ("write-a-grain.md", "def size", "grain", "_grains/NAME.py", "size"),
    ],
)
def test_page_shows_the_function_that_the_scaffold_writes(
    page: str, start: str, kind: str, path: str, name: str
) -> None:
    text = dedent((HOWTO / page).read_text(encoding="utf-8").replace("\n       ", "\n"))
    shown = text[text.index(start) :].split("\n\n")[0]
    assert shown in TEMPLATES[kind][path].replace("NAME", name)

"""The counter of state functions reads SLS files before Jinja has rendered them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from catena.core.plugins import Registry, StateMark
from catena.states import INDEX
from tests.trees.count import count, report, uses

REGISTRY = Registry("state", INDEX, StateMark)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vim:\n  pkg.installed: []\n", ["pkg.installed"]),
        ("vim:\n  pkg.installed\n", ["pkg.installed"]),
        ("vim: pkg.installed\n", ["pkg.installed"]),
        ("vim:\n  pkg:\n    - name: vim\n    - installed\n", ["pkg.installed"]),
        ("vim:\n  pkg:\n  - installed\n  - pkgs:\n    - nano\n", ["pkg.installed"]),
        ("{{ a.b }}:\n  service.{{ state }}:\n    - name: x\n", ["service.<dynamic>"]),
        ("{% if a %}\nx:\n  file.managed:\n    - require:\n      - pkg: vim\n{% endif %}\n",
         ["file.managed"]),
        ("{%- if a %}\n  x:\n    file.absent:\n      - name: /x\n{%- endif %}", ["file.absent"]),
        ("extend:\n  x:\n    service.running:\n      - watch: [{file: y}]\n", ["service.running"]),
        ("x:\n  module.run:\n    - service.restart:\n      - name: y\n", ["module.run"]),
        ("x:\n  file.managed:\n    - contents: |\n        a:\n          b.c:\n    - mode: 1\n",
         ["file.managed"]),
        ("x:\n  # file.absent:\n  {# cmd.run: #}\n  cmd.run:\n    - name: y\n", ["cmd.run"]),
        ("x:\n  cmd.run:\n    - env:\n        a.b:\n          c\n", ["cmd.run"]),
        ("include:\n  - .install\n  - a.b\n", []),
    ],
)  # fmt: skip
def test_uses_of_states_are_found(text: str, expected: list[str]) -> None:
    assert list(uses(text)) == expected


def test_uses_are_grouped_by_who_has_the_state(tmp_path: Path) -> None:
    (tmp_path / "a/_states").mkdir(parents=True)
    (tmp_path / "a/_states/mine.py").write_text("")
    (tmp_path / "a/init.sls").write_text(
        "x:\n  pkg.installed: []\n  mine.made: []\n  win_servermanager.installed: []\n"
        "  nonesuch.present: []\n  file.nonesuch: []\n  service.{{ s }}: []\n"
    )
    (tmp_path / "a/test").mkdir()
    (tmp_path / "a/test/pillar.sls").write_text("x:\n  not.counted: []\n")
    (tmp_path / "a/code.sls").write_text("#!py\nx = 1\n")
    found = count(tmp_path)
    assert (found.files, found.unread) == (2, [tmp_path / "a/code.sls"])
    assert found.groups(REGISTRY) == {
        "built in": Counter({"pkg.installed": 1}),
        "own": Counter({"mine.made": 1}),
        "elsewhere": Counter({"win_servermanager.installed": 1}),
        "dynamic": Counter({"service.<dynamic>": 1}),
        "missing": Counter({"nonesuch.present": 1, "file.nonesuch": 1}),
    }


def test_report_ranks_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.sls").write_text(
        "a:\n  nonesuch.one: []\nb:\n  nonesuch.two: []\nc:\n  nonesuch.two: []\n"
        "d:\n  cmd.run: []\n"
    )
    text = report(count(tmp_path), REGISTRY)
    assert "25.0 %" in text
    assert text.index("`nonesuch.two` | 2") < text.index("`nonesuch.one` | 1")

"""The state trees of the benchmark, and what counts as a right answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from bench import trees
from bench.errors import BenchError


def answer(*states: tuple[bool, dict[str, str]]) -> str:
    found = {str(n): {"result": result, "changes": changes} for n, (result, changes) in
             enumerate(states)}  # fmt: skip
    return json.dumps({"local": found})


def test_trees_have_the_states_that_they_promise(tmp_path: Path) -> None:
    assert len(yaml.safe_load(trees.noops(7))) == 7
    found = yaml.safe_load(trees.chained(3))
    assert found["link 2"] == {"test.nop": [{"require": [{"test": "link 1"}]}]}
    found = yaml.safe_load(trees.files(tmp_path, 2))
    assert found[f"{tmp_path}/f0001"] == {"file.managed": [{"contents": "line 1"}]}
    assert len(trees.large(5000)) >= 5000


def test_trees_are_written_where_they_are_looked_for(tmp_path: Path) -> None:
    found = trees.write(tmp_path)
    assert (found.states / "files.sls").read_text().count("file.managed") == trees.FILES
    assert found.target.is_dir()


def test_run_with_other_counts_is_refused() -> None:
    trees.check_run(answer((True, {}), (True, {"new": "x"})), states=2, changed=1)
    for wrong in (
        answer((True, {}), (False, {"new": "x"})),
        answer((True, {})),
        answer((True, {}), (True, {})),
    ):
        with pytest.raises(BenchError, match="wanted 2 and 1"):
            trees.check_run(wrong, states=2, changed=1)
    with pytest.raises(BenchError, match="no answer: Traceback"):
        trees.check_run("Traceback", states=2, changed=1)
    with pytest.raises(BenchError, match="no states: "):
        trees.check_run(json.dumps({"local": ["Rendering SLS failed"]}), states=2, changed=1)


def test_shown_tree_with_too_few_states_is_an_error() -> None:
    trees.check_shown(answer((True, {}), (True, {})), least=2)
    with pytest.raises(BenchError, match="1 states were shown; wanted 2"):
        trees.check_shown(answer((True, {})), least=2)

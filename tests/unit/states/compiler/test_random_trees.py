"""Random SLS trees run as an independent implementation of the rules says.

A seed that fails is shown with its tree, made as small as the fault allows. `make trees` tries
more seeds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.sls_trees.draw import draw
from tests.sls_trees.expected import Outcome, Row, expected
from tests.sls_trees.shrink import shrunk
from tests.sls_trees.tree import Tree, load

CASES = Path(__file__).parents[3] / "cases" / "trees"
_CHUNK = 100
_REASONS = {
    "requisite": r"One or more requisite failed",
    "onlyif": r"onlyif condition is false",
    "unless": r"unless condition is true",
    "creates": r"^/ exists$|All files in creates exist",
    "onchanges": r"none of the onchanges reqs changed",
    "onfail": r"onfail req did not change",
    "prereq": r"No changes detected",
    "check_cmd": r"check_cmd determined the state failed",
    "unavailable": r"State '.*' was not found in SLS",
    "missing": r"Referenced state .* does not exist",
}
_FAULTS = {
    "missing_requisite": "Referenced state does not exist",
    "loop": "Recursive requisites were found",
    "conflicting_id": "Detected conflicting IDs",
    "cannot_extend": "Cannot extend ID",
    "no_function": "No function declared",
    "missing_sls": "No matching sls found|Specified SLS|Unknown include",
}


def actual(world: Any, tree: Tree) -> Outcome:
    """Return what a run of *tree* comes to."""
    w = world(roots={"base": tree.texts()}, opts={"failhard": tree.failhard})
    answer = w.apply(list(tree.mods), **({"test": True} if tree.test else {}))
    if isinstance(answer, list):
        return Outcome([], sorted(_word(text, _FAULTS) for text in answer))
    rows = sorted(answer.items(), key=lambda pair: pair[1]["__run_num__"])
    return Outcome([_row(key, row) for key, row in rows], [])


def _row(key: str, row: dict[str, Any]) -> Row:
    return Row(key, row["result"], bool(row["changes"]), _word(row["comment"], _REASONS, "ran"))


def _word(text: str, phrases: dict[str, str], default: str = "") -> str:
    return next(
        (word for word, phrase in phrases.items() if re.search(phrase, text, re.M)),
        default or text,
    )


def shown(outcome: Outcome) -> list[Any]:
    """Return an outcome in comparable form."""
    rows = [(row.key, row.result, row.changed, row.why) for row in outcome.rows]
    return [*rows, *outcome.faults]


def difference(world: Any, seeds: range) -> str:
    """Return the first tree of *seeds* whose run differs from what the rules say; "" if none."""

    def differs(tree: Tree) -> bool:
        return shown(actual(world, tree)) != shown(expected(tree))

    for seed in seeds:
        tree = draw(seed)
        if differs(tree):
            small = shrunk(tree, differs)
            wanted, found = shown(expected(small)), shown(actual(world, small))
            return f"seed {seed}\n{small.show()}\nexpected {wanted}\nfound    {found}"
    return ""


@pytest.mark.parametrize("first", range(0, 1000, _CHUNK))
def test_random_trees_run_as_the_rules_say(world: Any, first: int) -> None:
    found = difference(world, range(first, first + _CHUNK))
    assert not found, found


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 22000, _CHUNK))
def test_more_random_trees_run_as_the_rules_say(world: Any, first: int) -> None:
    found = difference(world, range(first, first + _CHUNK))
    assert not found, found


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.yaml")))
def test_recorded_trees_run_as_recorded(world: Any, name: str) -> None:
    tree, recorded = load(CASES / f"{name}.yaml")
    assert shown(actual(world, tree)) == recorded
    assert shown(expected(tree)) == recorded


def test_failing_tree_is_reduced() -> None:
    tree = draw(3)
    ids = [id_ for body in tree.files.values() for id_ in body if id_.startswith("s")]
    small = shrunk(tree, lambda each: any(ids[0] in body for body in each.files.values()))
    assert sum(len(body) for body in small.files.values()) == 1

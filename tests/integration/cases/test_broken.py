"""Errors in each broken tree name file, line, excerpt and the nearest right name."""

from __future__ import annotations

import pytest

from tests.support.broken_cases import BrokenCase, cases, faults, tell

CASES = cases()


def test_at_least_120_broken_trees_are_collected() -> None:
    assert len(CASES) >= 120


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_broken_tree_is_reported_with_place_and_reason(case: BrokenCase) -> None:
    told = tell(case)
    assert list(faults(case, told)) == [], f"{told.out}\n{told.err}"

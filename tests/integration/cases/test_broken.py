"""What a person is told about every broken tree: file, line, excerpt and the right name."""

from __future__ import annotations

import pytest

from tests.support.broken_cases import BrokenCase, cases, faults, tell

CASES = cases()


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 120


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_broken_tree_is_explained(case: BrokenCase) -> None:
    told = tell(case)
    assert list(faults(case, told)) == [], f"{told.out}\n{told.err}"

"""What a person is told about every broken tree: file, line, excerpt and the right name."""

from __future__ import annotations

import pytest

# Imported for their children: a forked call finds these loaded.
import catena.cli.call
import catena.minion.calls.local
import catena.pillar.compile
import catena.renderers.jinja
import catena.states.compiler.api
import catena.states.file  # noqa: F401
from tests.support.broken_cases import BrokenCase, cases, faults, tell

CASES = cases()


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 120


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_broken_tree_is_explained(case: BrokenCase) -> None:
    told = tell(case)
    assert list(faults(case, told)) == [], f"{told.out}\n{told.err}"

"""Every cell of the fault matrix has a test that exists, or a reason."""

from __future__ import annotations

from tests.support import fault_matrix


def test_every_cell_is_covered_by_a_test_that_exists_or_says_why_not() -> None:
    matrix = fault_matrix.read()
    assert list(matrix.mistakes()) == []
    done, real = matrix.covered()
    assert done == real

"""Lists for statements come in few lengths."""

from __future__ import annotations

import pytest

from catena.master.store.lists import padded


@pytest.mark.parametrize(
    ("count", "length"), [(0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (1000, 1024), (5000, 8192)]
)
def test_list_is_filled_up_with_its_last_value(count: int, length: int) -> None:
    found = padded(range(count))
    assert len(found) == length
    assert set(found) == set(range(count))

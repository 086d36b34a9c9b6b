from __future__ import annotations

from typing import Any

import pytest

from catena.core.unguarded import KEY, Unguarded, total


def row(states: Any = 0, commands: Any = 0, inner: Any = None) -> dict[str, Any]:
    return {KEY: {"custom_states": states, "commands": commands}, "changes": {"ret": inner}}


def test_unguarded_rows_of_nested_runs_are_counted() -> None:
    inner = {"x": row(1, 2), "y": {"result": True}}
    rows = {"a": row(0, 1, inner), "b": row(1, 0), "c": {"changes": {}}}
    assert total(rows) == Unguarded(2, 3)


@pytest.mark.parametrize("odd", [-1, True, "3", None, 1.5, [], {}])
def test_invalid_counts_of_a_minion_are_ignored(odd: Any) -> None:
    rows = {"a": row(odd, odd), "b": {KEY: odd, "changes": odd}, "c": odd, "d": row(1, 0, odd)}
    assert total(rows) == Unguarded(1, 0)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (Unguarded(), ""),
        (Unguarded(1), "1 custom state is outside the guard of test mode"),
        (
            Unguarded(2, 1),
            "2 custom states and 1 command in onlyif, unless and check_cmd are outside the guard "
            "of test mode",
        ),
    ],
)
def test_counts_are_written_as_a_sentence(counts: Unguarded, words: str) -> None:
    assert counts.sentence() == words

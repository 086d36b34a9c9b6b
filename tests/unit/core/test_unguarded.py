from __future__ import annotations

from typing import Any

import pytest

from catena.core.template_calls import TemplateCall
from catena.core.unguarded import KEY, Unguarded, add_to, total


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
        (
            Unguarded(1, 2, (TemplateCall("cmd.run", "salt://a.sls", 2),)),
            "1 custom state, 2 commands in onlyif, unless and check_cmd and 2 calls in templates "
            "(cmd.run in salt://a.sls, 2 times) are outside the guard of test mode",
        ),
        (
            Unguarded(calls=(TemplateCall("cmd.run", "salt://a.sls"),)),
            "1 call in templates (cmd.run in salt://a.sls) is outside the guard of test mode",
        ),
    ],
)
def test_counts_are_written_as_a_sentence(counts: Unguarded, words: str) -> None:
    assert counts.sentence() == words


def test_calls_of_rows_are_summed_by_function_and_file() -> None:
    first, second = TemplateCall("cmd.run", "salt://a"), TemplateCall("cmd.run", "salt://b")
    rows: dict[str, dict[str, Any]] = {"a": {}, "b": row(1, 0)}
    add_to(rows["a"], Unguarded(calls=(first,)))
    add_to(rows["b"], Unguarded(calls=(first, second)))
    assert total(rows) == Unguarded(1, 0, (TemplateCall("cmd.run", "salt://a", 2), second))


def test_nothing_is_added_to_a_row_without_counts() -> None:
    rows: dict[str, dict[str, Any]] = {"a": {}}
    add_to(rows["a"], Unguarded())
    assert rows == {"a": {}}


@pytest.mark.parametrize("odd", [-1, "3", [3], [{}], [{"number": "1"}], [{"number": True}]])
def test_invalid_calls_of_a_minion_are_ignored(odd: Any) -> None:
    assert not total({"a": {KEY: {"calls": odd}}})


def test_names_of_a_minion_are_shortened_and_printable() -> None:
    told = {"function": "x" * 300, "file": "a\x1b[2J\n", "number": 1}
    (call,) = total({"a": {KEY: {"calls": [told]}}}).calls
    assert call == TemplateCall("x" * 200, "a?[2J?")


def test_sentence_names_five_functions_at_most() -> None:
    calls = tuple(TemplateCall(f"own.f{n}", "salt://a") for n in range(7))
    words = Unguarded(calls=calls).sentence()
    assert words.startswith("7 calls in templates (own.f0 in salt://a; own.f1 in salt://a; ")
    assert "own.f4 in salt://a; and 2 more) are outside" in words

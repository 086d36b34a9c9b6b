"""Calls of templates are noted in the innermost block only."""

from __future__ import annotations

from catena.core.template_calls import TemplateCall, calling, is_noting, note, noting_calls

CALL = TemplateCall("cmd.run", "salt://a.sls")


def test_nothing_is_noted_outside_a_block() -> None:
    note(CALL)
    assert not is_noting()
    with noting_calls() as notes:
        assert is_noting()
    assert notes.calls() == ()


def test_repeated_calls_are_counted() -> None:
    with noting_calls() as notes:
        note(CALL)
        note(TemplateCall("cmd.run", "salt://b.sls"))
        note(CALL)
    found = [(call.file, call.number) for call in notes.calls()]
    assert found == [("salt://a.sls", 2), ("salt://b.sls", 1)]


def test_inner_block_keeps_its_calls_from_the_outer_one() -> None:
    with noting_calls() as outer:
        with noting_calls() as inner:
            note(CALL)
        note(TemplateCall("own.f", "salt://a.sls"))
    assert inner.calls() == (CALL,)
    assert [call.function for call in outer.calls()] == ["own.f"]


def test_calls_inside_a_counted_call_are_not_counted() -> None:
    with noting_calls() as notes:
        with calling("own.f", "salt://a.sls"):
            note(CALL)
            assert not is_noting()
        assert is_noting()
    assert [call.function for call in notes.calls()] == ["own.f"]

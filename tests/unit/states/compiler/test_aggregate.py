"""`aggregate`: one state does the work of others of its module."""

from typing import Any

import pytest

from catena.core.plugins import Plugin, Registry, StateMark
from catena.core.types import StateResult
from catena.states.compiler import api


def done(context: Any, name: str, items: Any = None, works: bool = True) -> StateResult:
    result = (None if context.test else True) if works else False
    return StateResult(result, {}, " ".join(items or [name]))


def join(context: Any, low: Any, chunks: Any, running: Any) -> Any:
    """Do what Salt's own modules do: take the items of those that are not marked."""
    items = low.get("items") or [low["name"]]
    for chunk in chunks:
        if "__agg__" not in chunk and chunk["fun"] == low["fun"]:
            chunk["__agg__"] = True
            items = [*items, *(chunk.get("items") or [chunk["name"]])]
    low["items"] = items
    return low


def run(w: Any, setting: Any = True, test: bool = False, joins: Any = join) -> list[str]:
    """Return "id: comment" of each row of a run in which the module `own` can join."""
    calls = {"own.done": done, "own.other": done, "own.mod_aggregate": joins}
    plugins = {name: Plugin(name, call, StateMark()) for name, call in calls.items()}
    late = lambda prefix: plugins if prefix == "own" else None  # noqa: E731
    states = Registry("state", {"test": "catena.states.test"}, StateMark, late)
    opts = {**w.context.opts, "state_aggregate": setting}
    context = w.context.with_(states=states, opts=opts, test=test)
    compiled = api.compile_sls(context, "t")
    assert compiled.errors == ()
    rows = api.run(context, compiled.low)
    return [f"{row['__id__']}: {row['comment']}" for row in rows.values()]


TWO = "a: {own.done: []}\nb: {own.done: [items: [x, y]]}\n"


@pytest.mark.parametrize("setting", [True, ["pkg", "own"]])
@pytest.mark.parametrize("test", [False, True])
def test_state_does_what_others_of_its_module_would(world: Any, setting: Any, test: bool) -> None:
    assert run(world(TWO), setting, test) == ["a: a x y", "b: x y"]


@pytest.mark.parametrize("setting", [False, [], ["pkg"], "own"])
def test_states_without_aggregate_are_not_joined(world: Any, setting: Any) -> None:
    assert run(world(TWO), setting) == ["a: a", "b: x y"]


def test_module_may_write_what_it_likes_into_the_chunks(world: Any) -> None:
    def rename(context: Any, low: Any, chunks: Any, running: Any) -> Any:
        for chunk in chunks:
            chunk["name"] = "other"
        return low

    assert run(world(TWO), joins=rename) == ["a: a", "b: x y"]


def test_state_says_for_itself_whether_it_joins(world: Any) -> None:
    text = (
        "a: {own.done: [aggregate: true]}\nb: {own.done: []}\nc: {own.done: [aggregate: true]}\n"
    )
    assert run(world(text), False) == ["a: a c", "b: b", "c: c"]
    assert run(world("a: {own.done: []}\nb: {own.done: [aggregate: false]}\n")) == ["a: a", "b: b"]


def test_state_that_needs_another_is_not_joined_to_it(world: Any) -> None:
    text = (
        "a: {own.done: []}\n"
        "b: {own.done: [require: [test: t]]}\n"
        "t: {test.nop: [require: [own: a]]}\n"
        "c: {own.done: [require: [own: b]]}\n"
    )
    assert run(world(text)) == ["a: a", "t: Success!", "b: b", "c: c"]


def test_work_of_a_held_back_state_is_not_done_by_another(world: Any) -> None:
    text = (
        "a: {own.done: []}\n"
        "b: {own.done: [require: [test: t]]}\n"
        "t: {test.fail_without_changes: []}\n"
        "c: {own.done: [onlyif: 'false']}\n"
    )
    assert run(world(text)) == [
        "a: a",
        "t: Failure!",
        "b: One or more requisite failed: t.t",
        "c: onlyif condition is false",
    ]


def test_state_that_needs_one_member_waits_for_the_whole_group(world: Any) -> None:
    text = "a: {own.done: []}\nt: {test.nop: [require: [own: a]]}\nb: {own.done: [works: false]}\n"
    assert run(world(text)) == ["a: a b", "b: b", "t: One or more requisite failed: t.b"]


def test_module_decides_about_its_other_functions(world: Any) -> None:
    text = "a: {own.done: []}\nb: {own.other: []}\nc: {own.done: []}\nd: {own.other: []}\n"
    assert run(world(text)) == ["a: a c", "b: b d", "c: c", "d: d"]


def test_module_that_can_not_join_leaves_each_state_its_own_work(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(context: Any, low: Any, chunks: Any, running: Any) -> Any:
        raise KeyError("nothing")

    assert run(world(TWO), joins=broken) == ["a: a", "b: x y"]
    assert "own.mod_aggregate failed, a runs alone" in caplog.text

"""`parallel: True`: states that run beside each other."""

import os
import select
from typing import Any

import pytest

from catena.core.plugins import Plugin, Registry, StateMark
from catena.core.types import StateResult
from catena.states.compiler import api, parallel

SECONDS = 20


def run(w: Any, **calls: Any) -> list[Any]:
    """Return the rows of a run in which the module `own` has *calls*."""
    plugins = {
        f"own.{name}": Plugin(f"own.{name}", call, StateMark()) for name, call in calls.items()
    }
    late = lambda prefix: plugins if prefix == "own" else None  # noqa: E731
    states = Registry("state", {"test": "catena.states.test"}, StateMark, late)
    compiled = api.compile_sls(w.context.with_(states=states), "t")
    assert compiled.errors == ()
    rows = api.run(w.context.with_(states=states), compiled.low)
    return sorted(rows.values(), key=lambda row: row["__run_num__"])


class Pipe:
    """What one process waits for and another one says."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()

    def heard(self) -> bool:
        return bool(select.select([self.read], [], [], SECONDS)[0]) and bool(os.read(self.read, 1))

    def say(self) -> None:
        os.write(self.write, b"x")

    def close(self) -> None:
        os.close(self.read)
        os.close(self.write)


@pytest.fixture
def pipe() -> Any:
    made = Pipe()
    yield made
    made.close()


def test_states_run_beside_each_other_and_keep_their_places(world: Any, pipe: Pipe) -> None:
    def waits(context: Any, name: str) -> StateResult:
        return StateResult(pipe.heard(), {"pid": os.getpid()})

    def says(context: Any, name: str) -> StateResult:
        pipe.say()
        return StateResult(True, {"pid": os.getpid()})

    text = "a: {own.waits: [{parallel: true}]}\nb: {own.says: [{parallel: true}]}\nc: test.nop\n"
    rows = run(world(text), waits=waits, says=says)
    assert [row["__id__"] for row in rows] == ["a", "b", "c"]
    assert [row["result"] for row in rows] == [True, True, True]
    assert [row.get("__parallel__") for row in rows] == [True, True, None]
    assert len({os.getpid(), rows[0]["changes"]["pid"], rows[1]["changes"]["pid"]}) == 3


def test_a_requisite_waits_for_what_runs_beside(world: Any, pipe: Pipe) -> None:
    def waits(context: Any, name: str) -> StateResult:
        return StateResult(not pipe.heard(), {"late": True})

    def says(context: Any, name: str) -> StateResult:
        pipe.say()
        return StateResult(True)

    text = """
a: {own.waits: [{parallel: true}]}
b: {own.says: []}
c: {test.nop: [{require: [{own: a}]}]}
d: {test.nop: [{onfail: [{own: a}]}]}
"""
    rows = run(world(text), waits=waits, says=says)
    assert [(row["__id__"], row["result"]) for row in rows] == [
        ("a", False), ("b", True), ("c", False), ("d", True),
    ]  # fmt: skip
    assert "One or more requisite failed: t.a" in rows[2]["comment"]


def test_no_more_run_beside_each_other_than_allowed(world: Any, pipe: Pipe) -> None:
    def first(context: Any, name: str) -> StateResult:
        pipe.say()
        return StateResult(True)

    def second(context: Any, name: str) -> StateResult:
        return StateResult(bool(select.select([pipe.read], [], [], 0)[0]))

    text = "a: {own.first: [{parallel: true}]}\nb: {own.second: [{parallel: true}]}\n"
    rows = run(world(text, opts={"state_max_parallel": 1}), first=first, second=second)
    assert [row["result"] for row in rows] == [True, True]


def test_a_process_that_dies_fails_its_own_row(world: Any) -> None:
    def dies(context: Any, name: str) -> StateResult:
        os._exit(3)

    text = "a: {own.dies: [{parallel: true}]}\nb: test.nop\n"
    rows = run(world(text), dies=dies)
    assert [(row["__id__"], row["result"]) for row in rows] == [("a", False), ("b", True)]
    assert "left no row" in rows[0]["comment"]


def test_failhard_of_what_runs_beside_stops_what_waits_for_it(world: Any) -> None:
    text = """
a: {test.fail_without_changes: [{parallel: true}, {failhard: true}]}
b: {test.nop: [{require: [{test: a}]}]}
"""
    rows = run(world(text))
    assert [row["__id__"] for row in rows] == ["a"]


def test_where_no_child_can_be_made_it_runs_in_its_place(world: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("catena.states.compiler.run.possible", lambda: False)
    (row,) = run(world("a: {test.nop: [{parallel: true}]}\n"))
    assert row["result"] is True and "__parallel__" not in row
    assert parallel.possible() in (True, False)

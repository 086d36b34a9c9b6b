"""`parallel: True`: states that run beside each other."""

import os
import select
import signal
import subprocess
import threading
from typing import Any

import pytest

from catena.core.plugins import Plugin, Registry, StateMark
from catena.core.types import StateResult
from catena.modules.shared.command import tree
from catena.states.compiler import api, parallel

SECONDS = 60


class Hooks:
    """Lets every state run until somebody cancels; refuses to begin one of them."""

    def __init__(self, cancelled: Any = lambda: False, breaks_at: str = "") -> None:
        self.cancelled = cancelled
        self._breaks_at = breaks_at

    def before(self, low: Any) -> None:
        if low.id == self._breaks_at:
            raise OSError("the journal can't be written")

    def perform(self, low: Any, work: Any) -> Any:
        return work()

    def after(self, low: Any, row: Any) -> None:
        """Hear of a row."""


def run(w: Any, hooks: Any = None, **calls: Any) -> list[Any]:
    """Return the rows of a run in which the module `own` has *calls*."""
    plugins = {
        f"own.{name}": Plugin(f"own.{name}", call, StateMark()) for name, call in calls.items()
    }
    late = lambda prefix: plugins if prefix == "own" else None  # noqa: E731
    states = Registry("state", {"test": "catena.states.test"}, StateMark, late)
    compiled = api.compile_sls(w.context.with_(states=states), "t")
    assert compiled.errors == ()
    rows = api.run(w.context.with_(states=states), compiled.low, hooks)
    return sorted(rows.values(), key=lambda row: row["__run_num__"])


class Pipe:
    """What one process waits for and another one says."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()

    def heard(self) -> bool:
        return bool(select.select([self.read], [], [], SECONDS)[0]) and bool(os.read(self.read, 1))

    def say(self) -> None:
        os.write(self.write, b"x")

    def ended(self) -> bool:
        """Return whether nobody is left who could say something."""
        os.close(self.write)
        self.write = -1
        said = b"x"
        while said and select.select([self.read], [], [], SECONDS)[0]:
            said = os.read(self.read, 1)
        return not said

    def close(self) -> None:
        for handle in (self.read, self.write):
            if handle >= 0:
                os.close(handle)


@pytest.fixture(autouse=True)
def no_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run fork, whatever threads the test runner has.

    A worker of pytest-xdist reads in a thread that Python counts as soon as something in it (a
    finalizer, say) asks for the current thread. From then on no state would run beside another.
    """
    monkeypatch.setattr("catena.states.compiler.run.possible", lambda: True)


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
    assert [row["result"] for row in rows] == [True, True, True], rows
    assert [row.get("__parallel__") for row in rows] == [True, True, None]
    assert len({os.getpid(), rows[0]["changes"]["pid"], rows[1]["changes"]["pid"]}) == 3


def test_requisite_waits_for_a_parallel_state(world: Any, pipe: Pipe) -> None:
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


def test_number_of_parallel_states_is_limited(world: Any, pipe: Pipe) -> None:
    def first(context: Any, name: str) -> StateResult:
        pipe.say()
        return StateResult(True)

    def second(context: Any, name: str) -> StateResult:
        return StateResult(bool(select.select([pipe.read], [], [], 0)[0]))

    text = "a: {own.first: [{parallel: true}]}\nb: {own.second: [{parallel: true}]}\n"
    rows = run(world(text, opts={"state_max_parallel": 1}), first=first, second=second)
    assert [row["result"] for row in rows] == [True, True]


def test_process_that_dies_fails_its_own_row(world: Any) -> None:
    def dies(context: Any, name: str) -> StateResult:
        os._exit(3)

    text = "a: {own.dies: [{parallel: true}]}\nb: test.nop\n"
    rows = run(world(text), dies=dies)
    assert [(row["__id__"], row["result"]) for row in rows] == [("a", False), ("b", True)]
    assert "left no row" in rows[0]["comment"]


def test_unpicklable_row_is_reported(world: Any) -> None:
    def odd(context: Any, name: str) -> StateResult:
        return StateResult(True, {"made": lambda: name})

    (row,) = run(world("a: {own.odd: [{parallel: true}]}\n"), odd=odd)
    assert row["result"] is False
    assert "left no row: " in row["comment"] and "pickle" in row["comment"].lower()


def test_failhard_of_a_parallel_state_stops_waiting_states(world: Any) -> None:
    text = """
a: {test.fail_without_changes: [{parallel: true}, {failhard: true}]}
b: {test.nop: [{require: [{test: a}]}]}
"""
    rows = run(world(text))
    assert [row["__id__"] for row in rows] == ["a"]


def test_parallel_state_runs_inline_when_fork_is_not_possible(
    world: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("catena.states.compiler.run.possible", lambda: False)
    (row,) = run(world("a: {test.nop: [{parallel: true}]}\n"))
    assert row["result"] is True and "__parallel__" not in row


def test_possible_names_the_threads_that_hinder_a_fork(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait, name="another one")
    other.start()
    try:
        with caplog.at_level("INFO"):
            assert not parallel.possible()
    finally:
        done.set()
        other.join()
    assert "another one" in caplog.text


LONG = (
    "a: {own.long: [{parallel: true}]}\nb: {own.heard: []}\nc: {test.nop: [{require: [own: a]}]}\n"
)


def long_work(pipe: Pipe) -> Any:
    """Return states: one starts a command and waits for it longer than any test, one hears it."""

    def long(context: Any, name: str) -> StateResult:
        argv = ("/bin/sh", "-c", "read line; echo x; sleep 600")
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=pipe.write, start_new_session=True
        ) as process:
            try:
                process.communicate(b"go on\n")
            except BaseException:
                tree.end(process.pid)
                raise
        return StateResult(True)

    def heard(context: Any, name: str) -> StateResult:
        return StateResult(bool(select.select([pipe.read], [], [], SECONDS)[0]))

    return {"long": long, "heard": heard}


def test_parallel_states_end_when_the_run_is_cancelled(world: Any, pipe: Pipe) -> None:
    hooks = Hooks(cancelled=lambda: bool(select.select([pipe.read], [], [], 0)[0]))
    rows = run(world(LONG), hooks, **long_work(pipe))
    assert [(row["__id__"], row["result"]) for row in rows] in (
        [("a", False), ("b", True)],
        [("a", False)],
    )
    assert "the run was cancelled" in rows[0]["comment"]
    assert pipe.ended()


def test_parallel_states_end_when_the_run_raises(world: Any, pipe: Pipe) -> None:
    with pytest.raises(OSError, match="journal"):
        run(world(LONG), Hooks(breaks_at="b"), **long_work(pipe))
    assert pipe.ended()


def test_parallel_states_end_when_the_run_is_killed(world: Any, pipe: Pipe) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            run(world(LONG), **long_work(pipe))
        finally:
            os._exit(1)
    try:
        assert pipe.heard()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert pipe.ended()

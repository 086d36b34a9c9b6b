"""Runs of states: rows, hooks, errors of functions and general arguments."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import CommandExecutionError, PillarError
from catena.core.plugins import Plugin, Registry, StateMark
from catena.core.types import StateResult
from catena.states.compiler import api
from catena.states.compiler.call import StateCaller


class Hooks:
    """Plays recorded rows, writes down what it is told, stops where told."""

    def __init__(self, recorded: Any = None, stop_after: Any = None) -> None:
        self.recorded = recorded or {}
        self.stop_after = stop_after
        self.told: list[Any] = []

    def before(self, low: Any) -> Any:
        self.told.append(("before", low.id))
        return self.recorded.get(low.id)

    def perform(self, low: Any, work: Any) -> Any:
        return work()

    def after(self, low: Any, row: Any) -> None:
        self.told.append(("after", low.id, row["result"]))

    def cancelled(self) -> Any:
        return self.stop_after is not None and ("after", self.stop_after, True) in self.told


def run(w: Any, hooks: Any = None) -> Any:
    compiled = api.compile_sls(w.context, "t")
    assert compiled.errors == ()
    return api.run(w.context, compiled.low, hooks)


def with_states(w: Any, **calls: Any) -> Any:
    """Return *w* with more state functions, in the module `own`."""
    plugins = {
        f"own.{name}": Plugin(f"own.{name}", call, StateMark()) for name, call in calls.items()
    }
    late = lambda prefix: plugins if prefix == "own" else None  # noqa: E731
    states = Registry("state", {"test": "catena.states.test"}, StateMark, late)
    w.context = w.context.with_(states=states)
    return w


def test_row_has_salts_fields(world: Any) -> None:
    (row,) = world("a: {test.nop: [{name: n}]}\n").apply().values()
    assert {key: row[key] for key in ("name", "changes", "result", "comment")} == {
        "name": "n", "changes": {}, "result": True, "comment": "Success!",
    }  # fmt: skip
    assert (row["__id__"], row["__sls__"], row["__run_num__"]) == ("a", "t", 0)
    assert isinstance(row["duration"], float) and len(row["start_time"]) == len("00:00:00.000000")
    json.dumps(row)


def test_every_row_is_progress(world: Any) -> None:
    w = world("a: test.nop\nb: {test.nop: [{require: [{test: a}]}]}\n")
    w.apply()
    assert [(s["key"], s["run_num"], s["total"]) for s in w.host.steps] == [
        ("test_|-a_|-a_|-nop", 0, 2),
        ("test_|-b_|-b_|-nop", 1, 2),
    ]


def test_hooks_receive_begin_and_end_but_only_the_end_of_a_skipped_state(world: Any) -> None:
    hooks = Hooks()
    run(world("a: test.fail_without_changes\nb: {test.nop: [{require: [{test: a}]}]}\n"), hooks)
    assert hooks.told == [("before", "a"), ("after", "a", False), ("after", "b", False)]


def test_recorded_row_replaces_the_run_of_the_state(world: Any) -> None:
    recorded = {"result": True, "changes": {"ret": 1}, "comment": "before the crash", "name": "a"}
    w = with_states(
        world("a: own.never\nb: {test.nop: [{onchanges: [{own: a}]}]}\n"),
        never=lambda context, name: pytest.fail("ran again"),
    )
    hooks = Hooks({"a": recorded})
    rows = run(w, hooks)
    assert rows["own_|-a_|-a_|-never"]["comment"] == "before the crash"
    assert rows["test_|-b_|-b_|-nop"]["comment"] == "Success!"
    assert ("after", "a", True) not in hooks.told


def test_recorded_failure_blocks_what_needs_it(world: Any) -> None:
    recorded = {"result": False, "changes": {}, "comment": "interrupted", "name": "a"}
    rows = run(
        world("a: test.nop\nb: {test.nop: [{require: [{test: a}]}]}\n"), Hooks({"a": recorded})
    )
    assert rows["test_|-b_|-b_|-nop"]["result"] is False


def test_record_without_a_result_counts_as_failed(world: Any) -> None:
    rows = run(world("a: test.nop\nb: {test.nop: [{require: [{test: a}]}]}\n"), Hooks({"a": {}}))
    assert [row["result"] for row in rows.values()] == [False, False]


def test_cancelled_run_starts_no_further_state(world: Any) -> None:
    rows = run(world("a: test.nop\nb: test.nop\nc: test.nop\n"), Hooks(stop_after="b"))
    assert [row["__id__"] for row in rows.values()] == ["a", "b"]


def test_failhard_stops_the_run_but_listeners_still_act(world: Any) -> None:
    text = """
a: {test.succeed_with_changes: []}
l: {test.nop: [{listen: [{test: a}]}]}
b: {test.fail_without_changes: [{failhard: true}]}
c: test.nop
"""
    assert list(world(text).ran()) == ["a", "l", "b", "listener_l"]


def test_failhard_of_the_configuration(world: Any) -> None:
    w = world("a: test.fail_with_changes\nb: test.nop\n", opts={"failhard": True})
    assert list(w.ran()) == ["a"]


def test_unknown_states_fail_their_row_and_name_the_nearest(world: Any) -> None:
    text = "a: tset.nop\nb: test.nopp\nc: {test.nop: [{require: [{test: b}]}]}\nd: test.nop\n"
    rows = world(text).ran()
    assert "State 'tset.nop' was not found in SLS 't'" in rows["a"]["comment"]
    assert "'test.nop'" in rows["a"]["comment"]
    assert "'test.nop'" in rows["b"]["comment"] and "salt://t.sls:2" in rows["b"]["comment"]
    assert [row["result"] for row in rows.values()] == [False, False, False, True]


def test_wrong_arguments_stop_everything_before_anything_ran(world: Any) -> None:
    text = "a: test.nop\nb: {test.configurable_test_state: [{comnent: x}]}\n"
    w = world(text)
    (fault,) = w.apply()
    assert re.search(r"'comnent' is an invalid .*'comment'.*t\.sls:2", fault)
    assert w.host.steps == []


def test_missing_arguments_fail_their_row_only(world: Any) -> None:
    def needs(context: Any, name: str, source: str) -> StateResult:
        return StateResult(True)

    rows = run(with_states(world("a: {own.needs: [{retry: true}]}\nb: test.nop\n"), needs=needs))
    assert [row["result"] for row in rows.values()] == [False, True]
    comment = next(iter(rows.values()))["comment"]
    assert comment == "Missing parameter source for state own.needs (salt://t.sls:1)\n"


def test_function_sees_compiler_keywords_only_when_it_names_them(world: Any) -> None:
    seen: dict[str, Any] = {}

    def named(context: Any, name: str, runas: str = "", **rest: Any) -> StateResult:
        seen.update(rest, runas=runas)
        return StateResult(True)

    w = with_states(
        world("a: {own.named: [{runas: joe}, {umask: 7}, {own: 1}, {require: []}]}\n"), named=named
    )
    run(w)
    assert seen == {"runas": "joe", "own": 1}


def test_exception_is_the_rows_own(world: Any, caplog: Any) -> None:
    caplog.set_level("DEBUG")

    def broken(context: Any, name: str) -> StateResult:
        raise ValueError("boom")

    def refused(context: Any, name: str) -> StateResult:
        raise CommandExecutionError("no such volume")

    w = with_states(
        world("a: own.broken\nb: own.refused\nc: test.nop\n"), broken=broken, refused=refused
    )
    rows = list(run(w).values())
    assert [row["result"] for row in rows] == [False, False, True]
    assert rows[0]["comment"] == "An exception occurred in this state: ValueError: boom"
    assert "Traceback" in caplog.text
    assert rows[1]["comment"] == "An exception occurred in this state: no such volume"


def test_test_mode_reaches_the_states(world: Any) -> None:
    assert world("a: test.succeed_with_changes\n").ran(test=True)["a"]["result"] is None
    assert world("a: {test.succeed_with_changes: [{test: true}]}\n").ran()["a"]["result"] is None


def test_retry_repeats_until_the_wanted_result(world: Any) -> None:
    answers = iter([False, False, True])

    def grow(context: Any, name: str) -> StateResult:
        result = next(answers)
        return StateResult(result, comment="grown" if result else "small")

    w = with_states(world("a: {own.grow: [{retry: {attempts: 5, interval: 0}}]}\n"), grow=grow)
    (row,) = run(w).values()
    assert row["result"] is True
    assert row["comment"].splitlines() == [
        'Attempt 1: Returned a result of "False", with the following comment: "small"',
        'Attempt 2: Returned a result of "False", with the following comment: "small"',
        "grown",
    ]


def test_retry_gives_up_after_its_attempts(world: Any) -> None:
    calls = []

    def never(context: Any, name: str) -> StateResult:
        calls.append(name)
        return StateResult(False)

    w = with_states(world("a: {own.never: [{retry: {attempts: 3, interval: 0}}]}\n"), never=never)
    assert next(iter(run(w).values()))["result"] is False
    assert len(calls) == 3


@pytest.mark.parametrize("retry", ["{attempts: .inf, interval: 0}", "{interval: .nan}"])
def test_retry_without_end_counts_for_nothing(
    world: Any, monkeypatch: pytest.MonkeyPatch, retry: str
) -> None:
    monkeypatch.setattr(StateCaller, "_wait", lambda caller, seconds: True)
    (row,) = run(world(f"a: {{test.fail_without_changes: [{{retry: {retry}}}]}}\n")).values()
    assert row["comment"].count("Attempt") == 1
    assert "is no number" in row["warnings"][0]


def test_retry_waits_its_interval_and_a_part_of_its_splay(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def wait(caller: StateCaller, seconds: float) -> bool:
        waited.append(seconds)
        return True

    monkeypatch.setattr(StateCaller, "_wait", wait)
    retry = "{attempts: 9, interval: 5, splay: 3}"
    run(world(f"a: {{test.fail_without_changes: [{{retry: {retry}}}]}}\n"))
    assert len(waited) == 8 and len(set(waited)) > 1
    assert all(5 <= seconds <= 8 for seconds in waited)


def test_test_mode_says_how_a_state_would_be_tried_again(world: Any) -> None:
    w = world(
        "a: {test.nop: [{retry: {attempts: 3, splay: 2}}]}\nb: {test.nop: [{retry: false}]}\n"
    )
    w.context = w.context.with_(test=True)
    assert [row["comment"] for row in run(w).values()] == [
        "Success!  The state would be retried every 30 seconds (with a splay of up to 2 seconds) "
        "a maximum of 3 times or until a result of True is returned",
        "Success!",
    ]


def test_umask_holds_for_whatever_a_state_makes(world: Any, tmp_path: Path) -> None:
    def makes(context: Any, name: str) -> StateResult:
        (tmp_path / name).touch()
        return StateResult(True)

    own = os.umask(0o022)
    try:
        text = "a: {own.makes: [{umask: '077'}]}\nb: own.makes\nc: {own.makes: [umask: 9]}\n"
        rows = list(run(with_states(world(text), makes=makes)).values())
    finally:
        os.umask(own)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in "ab"]
    assert (modes, (tmp_path / "c").exists()) == ([0o600, 0o644], False)
    assert (
        rows[2]["result"] is False and "Invalid umask: '9' (salt://t.sls:3)" in rows[2]["comment"]
    )


def test_failed_reload_of_the_pillar_fails_the_state(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world("a: {test.nop: [{reload_pillar: true}]}\nb: test.nop\n")

    def compile_pillar() -> Any:
        raise PillarError(("secret.sls is broken",))

    monkeypatch.setattr(w.host, "compile_pillar", compile_pillar)
    rows = list(run(w).values())
    assert [row["result"] for row in rows] == [False, True]
    assert "can't be read" in rows[0]["comment"]


def test_state_that_did_not_run_reloads_nothing(world: Any) -> None:
    w = world("a: test.nop\nb: {test.nop: [{reload_pillar: true}, {onchanges: [{test: a}]}]}\n")
    w.host.compile_pillar = None
    assert [row["result"] for row in run(w).values()] == [True, True]


def test_fire_event_sends_the_row(world: Any) -> None:
    w = world("a: {test.nop: [{fire_event: true}]}\nb: {test.nop: [{fire_event: my/tag}]}\n")
    w.apply()
    assert [tag for tag, _ in w.host.events] == [
        "salt/state_result/minion/a",
        "salt/state_result/minion/my/tag",
    ]
    assert w.host.events[0][1]["ret"]["result"] is True


def test_reloads_reach_the_states_that_follow(world: Any) -> None:
    seen: list[Any] = []

    def look(context: Any, name: str) -> StateResult:
        seen.append((dict(context.grains), dict(context.pillar)))
        return StateResult(True)

    text = (
        "a: own.look\nb: {test.nop: [{reload_grains: true}, {reload_pillar: true}]}\nc: own.look\n"
    )
    w = with_states(world(text), look=look)
    w.host.fresh_grains, w.host.pillar = {"new": 1}, {"fresh": 2}
    run(w)
    assert seen == [({}, {}), ({"new": 1}, {"fresh": 2})]


def test_states_of_an_environment_see_it(world: Any) -> None:
    seen: list[Any] = []

    def look(context: Any, name: str) -> StateResult:
        seen.append(context.saltenv)
        return StateResult(True)

    w = with_states(world(roots={"dev": {"t.sls": "a: own.look\n"}}), look=look)
    compiled = api.compile_sls(w.context, "t", "dev")
    api.run(w.context, compiled.low)
    assert seen == ["dev"]


def test_run_costs_little_per_state(world: Any) -> None:
    import time

    w = world(json.dumps({f"s{n}": {"test.nop": []} for n in range(2000)}))
    compiled = api.compile_sls(w.context, "t")
    started = time.process_time()
    api.run(w.context, compiled.low, Hooks())
    # 0.05 ms each is the aim; ten times that is a fault and not a slow machine.
    assert time.process_time() - started < 2000 * 0.0005

"""module.run and mgrcompat.module_run."""

import json
from typing import Any

import pytest


def one(world: Any, state: Any, arguments: Any, **options: Any) -> Any:
    w = world(json.dumps({"x": {state: arguments}}))
    return w.ran(**options)["x"]


CLASSIC = ["module.run", "mgrcompat.module_run"]


@pytest.mark.parametrize("state", CLASSIC)
def test_changes_carry_what_the_function_returned(world: Any, state: Any) -> None:
    row = one(world, state, [{"name": "probe.answer"}, {"value": {"a": 1}}])
    assert (row["result"], row["changes"]) == (True, {"ret": {"a": 1}})


@pytest.mark.parametrize("state", CLASSIC)
@pytest.mark.parametrize(
    ("value", "result"),
    [
        (True, True),
        (False, False),
        (None, True),
        ("text", True),
        ([1], True),
        ({"retcode": 0}, True),
        ({"retcode": 3}, False),
        ({"result": False}, False),
        ({"a": {"b": {"result": False}}}, False),
        ({"a": {"result": None}}, True),
    ],
)
def test_value_says_whether_the_call_failed(
    world: Any, state: Any, value: Any, result: Any
) -> None:
    row = one(world, state, [{"name": "probe.answer"}, {"value": value}])
    assert (row["result"], row["changes"]) == (result, {"ret": value})


@pytest.mark.parametrize("state", CLASSIC)
def test_arguments_come_by_name_as_lists_and_as_mappings(world: Any, state: Any) -> None:
    arguments = [
        {"name": "probe.options"}, {"args": ["f", "g"]}, {"kwargs": {"k": 1}}, {"m_name": "n"},
        {"runas": "joe"},
    ]  # fmt: skip
    row = one(world, state, arguments)
    wanted = {"first": "f", "rest": ["g"], "named": {"k": 1, "name": "n", "runas": "joe"}}
    assert row["changes"]["ret"] == wanted


@pytest.mark.parametrize("state", CLASSIC)
def test_missing_and_surplus_arguments_are_reported(world: Any, state: Any) -> None:
    row = one(world, state, [{"name": "probe.answer"}])
    assert row["result"] is False
    assert row["comment"] == "The following arguments are missing: value"
    row = one(world, state, [{"name": "probe.answer"}, {"value": 1}, {"surplus": 2}])
    assert row["result"] is True and "'surplus'" in row["warnings"][0]


@pytest.mark.parametrize("state", CLASSIC)
def test_unknown_functions_name_the_nearest(world: Any, state: Any) -> None:
    row = one(world, state, [{"name": "probe.anwser"}])
    assert row["result"] is False and "'probe.answer'" in row["comment"]


@pytest.mark.parametrize("state", CLASSIC)
def test_test_mode_calls_nothing(world: Any, state: Any) -> None:
    w = world(json.dumps({"x": {state: [{"name": "probe.answer"}, {"value": 1}]}}))
    row = w.ran(test=True)["x"]
    assert row["result"] is None and row["changes"] == {}
    assert w.fakes.calls == []


def test_new_syntax_calls_each_function(world: Any) -> None:
    row = one(
        world,
        "module.run",
        [{"probe.answer": [{"value": "hello"}]}, {"probe.options": ["f", {"k": 1}]}],
    )
    assert row["result"] is True
    assert row["changes"] == {
        "probe.answer": "hello",
        "probe.options": {"first": "f", "rest": [], "named": {"k": 1}},
    }


def test_new_syntax_keeps_the_changes_of_what_succeeded(world: Any) -> None:
    row = one(world, "module.run", [{"probe.options": ["f"]}, {"probe.answer": [False]}])
    assert row["result"] is False and list(row["changes"]) == ["probe.options"]
    # What failed stands first, what a function gave behind its name, as in Salt.
    assert row["comment"].startswith("'probe.answer': False, probe.options: ")


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ([{"nosuch.fun": []}], "Unavailable function: nosuch.fun"),
        ([{"probe.answer": []}], "missing argument(s): value"),
        ([{"probe.answer": [{"value": 1}, {"surplus": 1}]}], "takes no argument 'surplus'"),
        ([], "Module function x is not available"),
    ],
)
def test_new_syntax_says_what_is_wrong(world: Any, arguments: Any, phrase: Any) -> None:
    row = one(world, "module.run", arguments)
    assert row["result"] is False and phrase in row["comment"]


def test_new_syntax_in_test_mode(world: Any) -> None:
    row = one(world, "module.run", [{"probe.answer": [1]}], test=True)
    assert (row["result"], row["comment"]) == (None, "Function probe.answer to be executed.")


def test_wait_calls_only_when_something_watched_changed(world: Any) -> None:
    text = """
c: test.%s
x:
  module.wait: [{name: probe.answer}, {value: 1}, {watch: [{test: c}]}]
"""
    w = world(text % "nop")
    w.apply()
    assert w.fakes.calls == []
    w = world(text % "succeed_with_changes")
    assert w.ran()["x"]["changes"] == {"ret": 1}


CHUNK = """
mgr_actionchain_131_action_1_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods: remote
    -   kwargs:
            pillar:
                who: joe
mgr_actionchain_131_action_2_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   require:
        -   mgrcompat: mgr_actionchain_131_action_1_chunk_1
"""
KEY = "mgrcompat_|-mgr_actionchain_131_action_{0}_chunk_1_|-state.apply_|-module_run"


def chunk(world: Any, fun: Any) -> Any:
    remote = f"{{{{ pillar['who'] }}}}: test.{fun}\n"
    files = {"remote.sls": remote, "top.sls": "base: {'*': [high]}\n", "high.sls": "h: test.nop\n"}
    return world(CHUNK, files=files).apply()


def test_chunk_of_a_chain_runs_nested_states(world: Any) -> None:
    answer = chunk(world, "succeed_with_changes")
    assert list(answer) == [KEY.format(1), KEY.format(2)]
    nested = answer[KEY.format(1)]["changes"]["ret"]
    assert nested["test_|-joe_|-joe_|-succeed_with_changes"]["result"] is True
    assert "test_|-h_|-h_|-nop" in answer[KEY.format(2)]["changes"]["ret"]


def test_failed_nested_state_fails_the_action_and_what_follows(world: Any) -> None:
    answer = chunk(world, "fail_without_changes")
    first, second = answer.values()
    assert first["result"] is False and first["changes"]["ret"]
    assert "joe" in first["comment"] and "Failure!" in first["comment"]
    assert second["result"] is False and second["__state_ran__"] is False


def test_errors_of_a_nested_run_fail_the_action(world: Any) -> None:
    row = one(world, "mgrcompat.module_run", [{"name": "state.apply"}, {"mods": "gone"}])
    assert row["result"] is False
    assert row["changes"]["ret"][0].startswith("No matching sls found for 'gone'")
    assert "No matching sls found" in row["comment"]


def test_exception_of_the_function_fails_the_action(world: Any, caplog: Any) -> None:
    row = one(world, "mgrcompat.module_run", [{"name": "probe.boom"}])
    assert row["result"] is False and "ValueError: boom" in row["comment"]

"""onlyif, unless, creates and check_cmd."""

import json
from typing import Any

import pytest

ONLYIF = "onlyif condition is"
UNLESS = "unless condition is"
STATE = "x: {test.succeed_with_changes: [%s]}\n"


def row(world: Any, conditions: Any, **options: Any) -> Any:
    return world(STATE % conditions).ran(**options)["x"]


@pytest.mark.parametrize(
    ("conditions", "comment"),
    [
        ("{onlyif: 'true'}", None),
        ("{onlyif: 'false'}", "onlyif condition is false"),
        ("{onlyif: ['true', 'false']}", "onlyif condition is false"),
        ("{unless: 'false'}", None),
        ("{unless: 'true'}", "unless condition is true"),
        ("{unless: ['true', 'false']}", None),
        ("{unless: ['true', 'true']}", "unless condition is true"),
        ("{onlyif: false}", None),
        ("{unless: true}", None),
        ("{onlyif: 'true'}, {unless: 'true'}", f"{ONLYIF} true\n{UNLESS} true"),
        ("{onlyif: 'false'}, {unless: 'false'}", f"{ONLYIF} false\n{UNLESS} false"),
        ("{onlyif: [{fun: probe.answer, value: 1}]}", None),
        ("{onlyif: [{fun: probe.answer, args: [0]}]}", "onlyif condition is false"),
        ("{unless: [{fun: probe.answer, value: 1}]}", "unless condition is true"),
        (
            "{onlyif: [{fun: probe.answer, value: {a: {b: 0}}, get_return: 'a:b'}]}",
            f"{ONLYIF} false",
        ),
    ],
)  # fmt: skip
def test_conditions_decide_whether_a_state_acts(world: Any, conditions: Any, comment: Any) -> None:
    found = row(world, conditions)
    if comment is None:
        assert found["comment"] == "Success!" and found["changes"]
    else:
        assert (found["result"], found["changes"], found["comment"]) == (True, {}, comment)
        assert found["skip_watch"] is True


def test_skipped_state_does_not_react_to_a_watch(world: Any) -> None:
    text = (
        "c: test.succeed_with_changes\nx: {test.nop: [{onlyif: 'false'}, {watch: [{test: c}]}]}\n"
    )
    assert world(text).ran()["x"]["comment"] == "onlyif condition is false"


def test_creates_looks_for_every_path(world: Any, tmp_path: Any) -> None:
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.touch()
    assert row(world, f"{{creates: {there}}}")["comment"] == f"{there} exists"
    assert row(world, f"{{creates: {missing}}}")["changes"]
    assert row(world, f"{{creates: [{there}, {missing}]}}")["changes"]
    assert row(world, f"{{creates: [{there}]}}")["comment"] == "All files in creates exist"


@pytest.mark.parametrize(
    ("conditions", "phrase"),
    [
        ("{onlyif: []}", "onlyif is an empty list"),
        ("{unless: []}", "unless is an empty list"),
        ("{onlyif: [{value: 1}]}", "needs `fun`"),
        ("{onlyif: [{fun: prob.answer}]}", "unknown function 'prob.answer'"),
        ("{onlyif: [{fun: probe.answer}]}", "value"),
        ("{unless: [{fun: probe.boom}]}", "boom"),
    ],
)
def test_malformed_conditions_fail_the_row(world: Any, conditions: Any, phrase: Any) -> None:
    found = row(world, conditions)
    assert found["result"] is False and phrase in found["comment"]
    assert found["comment"].startswith("An exception occurred in this state")


def test_conditions_run_in_test_mode(world: Any) -> None:
    assert row(world, "{onlyif: 'false'}", test=True)["result"] is True


def test_conditions_are_not_asked_once_a_requisite_has_decided(world: Any) -> None:
    w = world("s: test.nop\n" + STATE % "{onlyif: 'false'}, {onchanges: [{test: s}]}")
    assert "onchanges" in w.ran()["x"]["comment"]
    assert w.fakes.calls == []


def test_commands_get_the_states_folder_user_and_environment(world: Any) -> None:
    text = "x: {test.nop: [{onlyif: 'true'}, {cwd: /srv}, {runas: joe}, {env: [{A: b}]}]}\n"
    w = world(text)
    w.apply()
    ((command, given),) = w.fakes.calls
    assert command == "true"
    assert {key: given[key] for key in ("cwd", "runas", "env")} == {
        "cwd": "/srv", "runas": "joe", "env": {"A": "b"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fun", "commands", "result"),
    [
        ("succeed_with_changes", ["true"], True),
        ("succeed_with_changes", ["true", "false"], False),
        ("fail_with_changes", "true", True),
    ],
)
def test_check_cmd_decides_the_result(world: Any, fun: Any, commands: Any, result: Any) -> None:
    found = world(json.dumps({"x": {f"test.{fun}": [{"check_cmd": commands}]}})).ran()["x"]
    assert found["result"] is result and found["changes"]
    outcome = "succeeded" if result else "failed"
    assert found["comment"] == f"check_cmd determined the state {outcome}"


@pytest.mark.parametrize(
    ("condition", "runs"),
    [
        ("onlyif: [true, 'false']", True),
        ("onlyif: ['false', true]", False),
        ("unless: [false, 'true']", False),
        ("unless: ['true', false]", True),
        ("unless: [true, 'false']", True),
    ],
)
def test_booleans_among_other_conditions_count_as_in_salt(
    world: Any, condition: Any, runs: Any
) -> None:
    row = world(f"a: {{test.succeed_with_changes: [{{{condition}}}]}}\n").ran()["a"]
    assert bool(row["changes"]) is runs

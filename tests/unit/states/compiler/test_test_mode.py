"""No argument of a state leaves test mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.plugins import Plugin, Registry, StateMark
from catena.core.types import StateResult
from catena.core.unguarded import KEY, carry_over
from catena.states.compiler.call import StateCaller
from tests.unit.states.conftest import MakeWorld

#: Ways to write that a state is not in test mode.
LIFTS = ("False", "'false'", "'no'", "0", "null", "[]")


@pytest.mark.parametrize("lift", LIFTS)
@pytest.mark.parametrize("fun", ["file.managed", "file.directory"])
def test_keyword_of_a_state_does_not_lift_test_mode(
    world: MakeWorld, tmp_path: Path, fun: str, lift: str
) -> None:
    place = tmp_path / "made"
    row = world(f"a: {{{fun}: [{{name: {place}}}, {{test: {lift}}}]}}\n").ran(test=True)["a"]
    assert row["result"] is None
    assert not place.exists()


def test_keyword_keeps_a_state_in_test_mode_in_a_run_that_acts(
    world: MakeWorld, tmp_path: Path
) -> None:
    text = "".join(
        f"{name}: {{file.directory: [{{name: {tmp_path / name}}}, {{test: {test}}}]}}\n"
        for name, test in (("a", "True"), ("b", "'no'"), ("c", "False"))
    )
    rows = world(text).ran()
    assert [rows[name]["result"] for name in "abc"] == [None, True, True]
    assert [(tmp_path / name).exists() for name in "abc"] == [False, True, True]


def test_trial_of_a_prereq_does_not_act_for_a_keyword_of_its_target(
    world: MakeWorld, tmp_path: Path
) -> None:
    place = tmp_path / "made"
    seen: list[bool] = []
    row = StateCaller.row

    def watched(self: StateCaller, context: Any, low: Any, *more: Any) -> Any:
        answer = row(self, context, low, *more)
        if low.id == "target" and context.test:
            seen.append(place.exists())
        return answer

    text = (
        "before: {test.nop: [{prereq: [{file: target}]}]}\n"
        f"target: {{file.directory: [{{name: {place}}}, {{test: False}}]}}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateCaller, "row", watched)
        world(text).ran()
    assert seen == [False]
    assert place.exists()


@pytest.mark.parametrize(
    "text",
    [
        "a: {{test.nop: [{{onlyif: [{{fun: state.single, args: [file.directory, {0}], "
        "test: False}}]}}]}}\n",
        "{{% set x = salt['state.single']('file.directory', '{0}', test=False) %}}\na: test.nop\n",
        "a: {{mgrcompat.module_run: [{{name: state.single}}, {{fun: file.directory}}, "
        "{{m_name: {0}}}, {{test: False}}]}}\n",
    ],
    ids=["condition", "template", "module_run"],
)
def test_run_inside_a_run_in_test_mode_stays_in_it(
    world: MakeWorld, tmp_path: Path, text: str
) -> None:
    place = tmp_path / "made"
    world(text.format(place)).ran(test=True)
    assert not place.exists()


def test_run_leaves_the_test_mode_of_the_configuration(world: MakeWorld, tmp_path: Path) -> None:
    place = tmp_path / "made"
    w = world(f"a: {{file.directory: [{{name: {place}}}]}}\n")
    w.context = w.context.with_(test=True)
    assert w.ran(test=False)["a"]["result"] is True
    assert place.exists()


def test_template_of_a_managed_file_may_call_what_it_likes(
    world: MakeWorld, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    source = f"{{% do salt['cmd.retcode']('touch {made}') %}}\n"
    options = f"[{{name: {made}}}, {{source: salt://x}}, {{template: jinja}}]"
    w = world(f"a: {{file.managed: {options}}}\n", files={"x": source})
    assert w.ran(test=True)["a"]["result"] is None
    assert w.fakes.calls == [(f"touch {made}", {})]
    assert not made.exists()


#: What `calls` counts for one call of cmd.retcode in the file t.sls.
ONE_CALL = [{"function": "cmd.retcode", "file": "salt://t.sls", "number": 1}]
RUNS = "{% do salt['cmd.retcode']('true') %}"


def test_row_in_test_mode_counts_what_a_template_of_a_managed_file_calls(
    world: MakeWorld, tmp_path: Path
) -> None:
    options = f"[{{name: {tmp_path / 'made'}}}, {{source: salt://x}}, {{template: jinja}}]"
    text = f"a: test.nop\nb: {{file.managed: {options}}}\n"
    rows = world(text, files={"x": f"{RUNS}\n"}).ran(test=True)
    assert rows["b"][KEY]["calls"] == [{**ONE_CALL[0], "file": "salt://x"}]
    assert KEY not in rows["a"]


@pytest.mark.parametrize(
    "text",
    [
        f"{RUNS}\na: test.nop\n",
        "{% do salt.cmd.retcode('true') %}\na: test.nop\n",
        "{% do salt.get('cmd.retcode')('true') %}\na: test.nop\n",
        "{% from 'x' import y %}\na: test.nop\n",
        "{% set shown = salt['state.show_sls']('x') %}\na: test.nop\n",
        "#!py\ndef run():\n  __salt__['cmd.retcode']('true')\n  return {'a': 'test.nop'}\n",
        f"#!stateconf -G yaml . jinja\n{RUNS}\na: test.nop\n",
    ],
    ids=["item", "attribute", "get", "import", "shown", "py", "stateconf"],
)
def test_first_row_in_test_mode_counts_what_sls_files_call(world: MakeWorld, text: str) -> None:
    imported = f"{RUNS}\n{{% set y = 1 %}}\n"
    w = world(text, files={"x": imported, "x.sls": imported})
    (row,) = w.ran(test=True).values()
    assert w.fakes.calls == [("true", {})]
    assert [call["function"] for call in row[KEY]["calls"]] == ["cmd.retcode"]
    assert all(KEY not in row for row in w.ran().values())


def test_every_sls_file_of_a_run_is_named(world: MakeWorld) -> None:
    other = f"{RUNS}{RUNS}\nb: test.nop\n"
    rows = world(f"{RUNS}\ninclude: [x]\na: test.nop\n", files={"x.sls": other}).ran(test=True)
    (first, second) = rows.values()
    assert first[KEY]["calls"] == [*ONE_CALL, {**ONE_CALL[0], "file": "salt://x.sls", "number": 2}]
    assert KEY not in second


def test_function_that_reads_is_not_counted(world: MakeWorld) -> None:
    text = "{% set x = salt['state.show_top']() %}{% set y = 'cmd.retcode' in salt %}\n"
    assert KEY not in world(f"{text}a: test.nop\n").ran(test=True)["a"]


def test_calls_inside_a_run_that_a_template_starts_belong_to_that_run(world: MakeWorld) -> None:
    text = "{% set x = salt['state.apply']('x', test=True) %}\na: test.nop\n"
    w = world(text, files={"x.sls": f"{RUNS}\nb: test.nop\n"})
    (call,) = w.ran(test=True)["a"][KEY]["calls"]
    assert (call["function"], call["file"]) == ("state.apply", "salt://t.sls")


def test_run_in_test_mode_without_states_has_a_row_that_counts_calls(world: MakeWorld) -> None:
    w = world(f"{RUNS}\n")
    answer = w.apply(test=True)
    assert w.context.scratch["retcode"] == 2
    assert [row[KEY]["calls"] for row in answer.values()] == [ONE_CALL]
    assert w.apply() == {}


def test_errors_of_a_run_in_test_mode_are_followed_by_the_calls(world: MakeWorld) -> None:
    w = world(f"{RUNS}\na: {{{{ nothing }}}}\n")
    error, calls = w.faults(test=True)
    assert "Rendering SLS" in error
    assert calls == (
        "Unguarded: 1 call in templates (cmd.retcode in salt://t.sls) is outside the guard of "
        "test mode"
    )
    assert len(w.faults()) == 1


def test_row_in_test_mode_counts_what_the_guard_does_not_cover(world: MakeWorld) -> None:
    text = (
        "a: {test.nop: [{onlyif: ['true', {fun: probe.answer, args: [1]}]}, "
        "{check_cmd: 'true'}]}\n"
        "b: {test.nop: [{unless: ['false', {fun: state.running}]}]}\n"
        "c: test.nop\n"
    )
    rows = world(text).ran(test=True)
    assert rows["a"][KEY] == {"custom_states": 0, "commands": 3}
    assert rows["b"][KEY] == {"custom_states": 0, "commands": 1}
    assert KEY not in rows["c"]
    assert all(KEY not in row for row in world(text).ran().values())


def test_custom_state_is_counted_and_not_guarded(world: MakeWorld, tmp_path: Path) -> None:
    made = tmp_path / "made"

    def act(context: Any, name: str) -> StateResult:
        made.touch()
        return StateResult(True)

    w = world("a: own.act\n")
    own = {"own.act": Plugin("own.act", act, StateMark("act"), "salt://_states/own.py")}
    late = Registry("state", {}, StateMark, lambda prefix: own if prefix == "own" else None)
    w.context = w.context.with_(states=late)
    assert w.ran(test=True)["a"][KEY] == {"custom_states": 1, "commands": 0}
    assert made.exists()


def test_row_of_mod_watch_has_the_counts_of_the_call_before_it(world: MakeWorld) -> None:
    text = (
        "changer: test.succeed_with_changes\n"
        "a: {cmd.wait: [{name: 'true'}, {onlyif: 'true'}, {watch: [{test: changer}]}]}\n"
    )
    row = world(text).ran(test=True)["a"]
    # The condition runs before each of the two calls.
    assert row[KEY] == {"custom_states": 0, "commands": 2}


def test_counts_of_two_rows_of_one_state_name_a_custom_state_once() -> None:
    call = {"function": "cmd.run", "file": "salt://a", "number": 2}
    before = {KEY: {"custom_states": 1, "commands": 1, "calls": [call]}}
    row: dict[str, Any] = {KEY: {"custom_states": 1, "commands": 0}}
    carry_over(row, before)
    assert row[KEY] == {"custom_states": 1, "commands": 1, "calls": [call]}
    empty: dict[str, Any] = {}
    carry_over(empty, {})
    assert empty == {}

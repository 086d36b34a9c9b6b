"""No argument of a state leaves test mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.plugins import Plugin, Registry, StateMark
from catena.core.types import StateResult
from catena.core.unguarded import KEY
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

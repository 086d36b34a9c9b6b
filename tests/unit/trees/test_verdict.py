"""What three runs of a formula came to is judged from what `catena call` printed."""

from __future__ import annotations

import json
from typing import Any

from tests.trees.verdict import Note, Run, Verdict, as_json, from_json, parse, table

CHANGED = Run(states=1, changed=(Note("pkg.installed vim", "installed"),))
QUIET = Run(states=1)


def printed(result: bool | None, changes: dict[str, Any]) -> str:
    row = {"result": result, "changes": changes, "comment": "so\n  it is"}
    return json.dumps({"local": {"pkg_|-vim_|-nano_|-installed": row}})


def test_failed_state_is_parsed() -> None:
    run = parse(printed(False, {}), 1.5)
    assert run == Run(states=1, failed=(Note("pkg.installed vim", "so it is"),), seconds=1.5)


def test_state_that_would_change_something_is_parsed() -> None:
    assert [note.state for note in parse(printed(None, {}), 0).changed] == ["pkg.installed vim"]
    assert [note.state for note in parse(printed(True, {"a": 1}), 0).changed] == [
        "pkg.installed vim"
    ]
    assert parse(printed(True, {}), 0).changed == ()


def test_answer_without_states_is_an_error() -> None:
    assert parse('{"local": ["no SLS \'a\'"]}', 0).error == "no SLS 'a'"
    assert parse("", 0).error == "no answer"
    assert parse("Traceback", 0).error == "Traceback"


def test_formula_is_applied_if_only_the_first_run_changes_something() -> None:
    assert Verdict("vim", (CHANGED, QUIET, QUIET)).applied
    assert not Verdict("vim", (CHANGED, QUIET)).applied
    assert Verdict("vim", (QUIET, QUIET, QUIET)).trouble == ("run 1 changed nothing",)
    again = Verdict("vim", (CHANGED, CHANGED, QUIET))
    assert again.trouble == ("run 2 changed: pkg.installed vim: installed",)


def test_change_in_every_run_is_accepted_where_the_list_explains_it() -> None:
    repeats = {"pkg.installed vim": "the formula asks for it"}
    assert Verdict("vim", (CHANGED, CHANGED, CHANGED), repeats=repeats).applied


def test_verdict_survives_its_file() -> None:
    verdict = Verdict("vim", (CHANGED, parse(printed(False, {}), 2), QUIET), "a disk", {"a": "b"})
    assert from_json(as_json(verdict)) == verdict


def test_table_names_what_went_wrong() -> None:
    broken = Verdict("ntp", (Run(error="no pillar"),))
    text = table([Verdict("vim", (CHANGED, QUIET, QUIET)), broken])
    assert "1 of 2 formulas are applied." in text
    assert "| vim | yes | 1 states, 1 changed | 1 states, 0 changed |" in text
    assert "| ntp | no | error | - | - |" in text
    assert "- run 1: no pillar" in text

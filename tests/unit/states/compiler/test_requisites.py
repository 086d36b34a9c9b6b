"""Effects of requisites on a state."""

from typing import Any

import pytest

from catena.states.compiler.low import low_from_chunk
from catena.states.compiler.requisites import link

BASE = """
chg: test.succeed_with_changes
same: test.succeed_without_changes
bad: test.fail_without_changes
bad_chg: test.fail_with_changes
skipped: {test.succeed_with_changes: [{onlyif: 'false'}]}
"""
FAILED = "One or more requisite failed: "


def state(*requisites: Any, fun: Any = "succeed_with_changes") -> Any:
    return f"x: {{test.{fun}: [{', '.join('{' + one + '}' for one in requisites)}]}}\n"


def outcome(world: Any, *requisites: Any, **options: Any) -> Any:
    row = world(BASE + state(*requisites)).ran(**options)["x"]
    if row.get("__state_ran__") is not False:
        return "ran"
    if row["comment"].startswith(FAILED):
        assert row["result"] is False
        return "failed"
    assert row["result"] is True and not row["changes"]
    return "skipped"


@pytest.mark.parametrize(
    ("requisite", "wanted"),
    [
        ("require: [{test: chg}]", "ran"),
        ("require: [{test: bad}]", "failed"),
        ("require: [{test: chg}, {test: bad}]", "failed"),
        ("require: [{test: skipped}]", "ran"),
        ("require: []", "ran"),
        ("require_any: [{test: bad}, {test: chg}]", "ran"),
        ("require_any: [{test: bad}, {test: bad_chg}]", "failed"),
        ("watch: [{test: bad_chg}]", "failed"),
        ("watch_any: [{test: bad}, {test: same}]", "ran"),
        ("onchanges: [{test: chg}]", "ran"),
        ("onchanges: [{test: same}]", "skipped"),
        ("onchanges: [{test: same}, {test: chg}]", "ran"),
        ("onchanges: [{test: bad_chg}]", "skipped"),
        ("onchanges: [{test: chg}, {test: bad_chg}]", "ran"),
        ("onchanges: [{test: skipped}]", "skipped"),
        ("onchanges_any: [{test: same}, {test: chg}]", "ran"),
        ("onfail: [{test: bad}]", "ran"),
        ("onfail: [{test: chg}]", "skipped"),
        ("onfail: [{test: bad}, {test: chg}]", "ran"),
        ("onfail: [{test: skipped}]", "skipped"),
        ("onfail_any: [{test: bad}, {test: chg}]", "ran"),
        ("onfail_all: [{test: bad}, {test: bad_chg}]", "ran"),
        ("onfail_all: [{test: bad}, {test: chg}]", "skipped"),
        ("prereq: [{test: chg}]", "ran"),
        ("prereq: [{test: same}]", "skipped"),
        ("prereq: [{test: same}, {test: chg}]", "ran"),
        ("prereq: [{test: skipped}]", "skipped"),
        ("prereq: [{test: bad}]", "failed"),
        ("require: [chg]", "ran"),
        ("require: [bad]", "failed"),
        ("require: [{id: bad}]", "failed"),
        ("require: [{test: 'bad*'}]", "failed"),
        ("require: [{test: 's*'}]", "ran"),
    ],
)
def test_outcome(world: Any, requisite: Any, wanted: Any) -> None:
    assert outcome(world, requisite) == wanted


def test_failed_requisite_wins_over_nothing_changed(world: Any) -> None:
    assert outcome(world, "require: [{test: bad}]", "onchanges: [{test: same}]") == "failed"


def test_predicted_change_counts_as_failed_for_onfail_in_test_mode(world: Any) -> None:
    assert outcome(world, "onfail: [{test: chg}]", test=True) == "ran"
    assert outcome(world, "onfail: [{test: same}]", test=True) == "skipped"


def test_failure_travels_down_a_chain_and_names_its_source(world: Any) -> None:
    text = """
a: test.fail_without_changes
b: {test.nop: [{require: [{test: a}]}]}
c: {test.nop: [{require: [{test: b}]}]}
"""
    rows = world(text).ran()
    assert rows["b"]["comment"] == f"{FAILED}t.a"
    assert rows["c"]["comment"] == f"{FAILED}t.b"


def test_onfail_of_a_state_that_never_ran(world: Any) -> None:
    text = """
a: test.fail_without_changes
b: {test.nop: [{require: [{test: a}]}]}
c: {test.succeed_with_changes: [{onfail: [{test: b}]}]}
"""
    assert world(text).ran()["c"]["changes"]


def test_bare_id_means_every_module_of_it(world: Any) -> None:
    text = """
m:
  test.nop: []
  module.run: [{name: probe.answer}, {value: false}]
x: {test.nop: [{require: [m]}]}
y: {test.nop: [{require: [{test: m}]}]}
"""
    answer = world(text).apply()
    assert answer["test_|-x_|-x_|-nop"]["result"] is False
    assert answer["test_|-y_|-y_|-nop"]["result"] is True


def test_name_finds_a_state_too(world: Any) -> None:
    text = "x: {test.nop: [{require: [{test: by name}]}]}\ni: {test.nop: [{name: by name}]}\n"
    assert list(world(text).ran()) == ["i", "x"]


@pytest.mark.parametrize("kind", ["require", "watch", "onchanges", "onfail", "prereq"])
def test_reverse_forms_do_as_the_forward_ones(world: Any, kind: Any) -> None:
    forward = world(f"s: test.fail_with_changes\nx: {{test.nop: [{{{kind}: [{{test: s}}]}}]}}\n")
    reverse = world(
        f"s: {{test.fail_with_changes: [{{{kind}_in: [{{test: x}}]}}]}}\nx: test.nop\n"
    )
    rows = [w.ran() for w in (forward, reverse)]
    assert list(rows[0]) == list(rows[1])
    assert rows[0]["x"]["comment"] == rows[1]["x"]["comment"]


def test_reverse_requisite_without_a_target_is_an_error(world: Any) -> None:
    (fault,) = world("a: {test.nop: [{require_in: [{test: nobody}]}]}\n").faults()
    assert fault.startswith("Cannot extend ID 'nobody'")


def test_missing_target_is_an_error_with_place_and_suggestion(world: Any) -> None:
    w = world("target: test.nop\na:\n  test.nop:\n    - watch: [{test: tagret}]\n")
    (fault,) = w.faults()
    assert "requisite [watch: (test: tagret)] in state [a] in SLS [t]" in fault
    assert "'target'" in fault and "salt://t.sls:4" in fault
    assert w.host.steps == []


@pytest.mark.parametrize("second", ["test.nop", "test.succeed_with_changes"])
def test_bare_name_of_several_states_means_the_first(world: Any, second: str) -> None:
    # As recorded from Salt 3008.5.
    text = f"one: {{test.nop: [{{name: n}}]}}\ntwo: {{{second}: [{{name: n}}]}}\n"
    rows = world(f"{text}s: {{test.fail_without_changes: [{{require_in: [n]}}]}}\n").ran()
    assert {id_: row["result"] for id_, row in rows.items()} == {
        "s": False, "one": False, "two": True,
    }  # fmt: skip


def test_bare_id_of_a_reverse_requisite_means_its_first_module(world: Any) -> None:
    text = (
        "two:\n  file.exists:\n    - name: /\n    - order: 10003\n  test.nop: []\n"
        "chg: {test.nop: [{onchanges_in: [two]}]}\n"
    )
    rows = world(text).apply()
    assert [key.split("_|-")[0] for key in rows] == ["test", "test", "file"]
    assert "none of the onchanges" in list(rows.values())[2]["comment"]


def test_sls_requisite_includes_the_files_includes(world: Any) -> None:
    files = {
        "lib.sls": "include: [deep]\nl: test.nop\n",
        "deep.sls": "d: test.fail_with_changes\n",
    }
    rows = world("include: [lib]\nx: {test.nop: [{require: [{sls: lib}]}]}\n", files=files).ran()
    assert rows["x"]["comment"] == f"{FAILED}deep.d"


def test_use_copies_what_the_user_lacks(world: Any) -> None:
    text = """
source:
  test.configurable_test_state:
    - changes: false
    - comment: theirs
    - require: [{test: broken}]
x: {test.configurable_test_state: [{use: [{test: source}]}]}
y: {test.configurable_test_state: [{comment: mine}, {use: [{test: source}]}]}
broken: test.fail_without_changes
"""
    rows = world(text).ran()
    assert (rows["x"]["comment"], rows["x"]["changes"]) == ("theirs", {})
    assert rows["y"]["comment"] == "mine"


def test_watch_runs_the_function_and_then_mod_watch(world: Any) -> None:
    rows = world(BASE + state("watch: [{test: chg}]", fun="nop")).ran()
    assert rows["x"]["comment"] == "Watch statement fired."
    assert rows["x"]["changes"] == {"Requisites with changes": ["test: chg"]}


def test_mod_watch_is_spared_when_the_function_changed_something(world: Any) -> None:
    rows = world(BASE + state("watch: [{test: chg}]")).ran()
    assert rows["x"]["comment"] == "Success!"


def test_watching_nothing_new_does_nothing_more(world: Any) -> None:
    rows = world(BASE + state("watch: [{test: same}]", fun="nop")).ran()
    assert rows["x"]["changes"] == {}


def test_prereq_runs_before_what_would_change(world: Any) -> None:
    text = """
deploy: test.succeed_with_changes
stop: {test.succeed_with_changes: [{prereq: [{test: deploy}]}]}
"""
    assert list(world(text).ran()) == ["stop", "deploy"]


def test_chain_of_prereqs_asks_the_last_one(world: Any) -> None:
    text = """
c: test.%s
b: {test.succeed_with_changes: [{prereq: [{test: c}]}]}
a: {test.succeed_with_changes: [{prereq: [{test: b}]}]}
"""
    rows = world(text % "succeed_with_changes").ran()
    assert list(rows) == ["a", "b", "c"] and all(row["changes"] for row in rows.values())
    rows = world(text % "nop").ran()
    assert [row["comment"] for row in rows.values()][:2] == ["No changes detected"] * 2


def test_target_of_a_failed_prereq_does_not_run(world: Any) -> None:
    text = """
guard: {test.fail_without_changes: [{prereq: [{test: risky}]}]}
risky: test.succeed_with_changes
"""
    row = world(text).ran()["risky"]
    assert row["result"] is None and row["changes"] == {}
    assert row["__state_ran__"] is False and "t.guard" in row["comment"]


def test_trial_of_a_prereq_waits_for_what_its_target_needs(world: Any) -> None:
    text = """
stop: {test.succeed_with_changes: [{prereq: [{test: deploy}]}]}
deploy: {test.succeed_with_changes: [{require: [{test: base}]}]}
base: test.nop
"""
    assert list(world(text).ran()) == ["base", "stop", "deploy"]


LISTEN = """
one: {test.nop: [{listen: [{test: chg}, {test: chg2}]}]}
two: {test.nop: [{listen: [{test: same}]}]}
chg: {test.succeed_with_changes: [{listen_in: [{test: three}]}]}
chg2: test.succeed_with_changes
same: test.nop
three: test.nop
"""


def test_listeners_act_once_at_the_end_in_the_order_written(world: Any) -> None:
    answer = world(LISTEN).apply()
    assert list(answer)[-2:] == [
        "test_|-listener_one_|-one_|-mod_watch",
        "test_|-listener_three_|-three_|-mod_watch",
    ]
    assert [row["__run_num__"] for row in answer.values()] == list(range(len(answer)))


def test_listening_to_nothing_fails_a_row_and_nothing_else(world: Any) -> None:
    answer = world("l: {test.nop: [{listen: [{test: ghost}]}]}\na: test.nop\n").apply()
    row = answer["Listen_Error_|-listen_ghost_|-listen_test_|-Listen_Error"]
    assert row["result"] is False and "test: ghost" in row["comment"]
    assert answer["test_|-a_|-a_|-nop"]["result"] is True


def test_reverse_requisites_to_a_large_file_share_one_group() -> None:
    count = 60
    common: dict[str, Any] = {"state": "test", "fun": "nop"}
    sources = [
        {**common, "__id__": f"s{n}", "__sls__": "t", "require_in": [{"sls": "lib"}]}
        for n in range(count)
    ]
    targets = [{**common, "__id__": f"u{n}", "__sls__": "lib"} for n in range(count)]
    plan = link([low_from_chunk(chunk) for chunk in (*sources, *targets)])
    needed = [links.needs["require"] for links in plan.links if links.needs]
    assert len(needed) == count
    assert {groups[0].members for groups in needed} == {tuple(range(count))}
    assert {len(groups) for groups in needed} == {1}


def test_failed_reverse_requisites_are_reported_in_order(
    world: Any,
) -> None:
    text = (
        "include: [lib]\n"
        "b: {test.fail_without_changes: [{require_in: [{sls: lib}]}]}\n"
        "a: {test.fail_without_changes: [{require_in: [{test: u1}, {sls: lib}]}]}\n"
    )
    rows = world(text, files={"lib.sls": "u1: test.nop\nu2: test.nop\n"}).ran()
    assert rows["u1"]["comment"] == rows["u2"]["comment"].replace("u2", "u1")
    assert rows["u2"]["comment"] == "One or more requisite failed: t.b, t.a"

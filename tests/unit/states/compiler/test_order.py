"""The order of a run."""

import json
import time
from typing import Any

from catena.states.compiler import api


def ids(rows: Any) -> Any:
    return list(rows)


def test_states_run_as_written(world: Any) -> None:
    assert ids(world("z: test.nop\na: test.nop\nm: test.nop\n").ran()) == ["z", "a", "m"]


def test_order_numbers_first_last_and_negative(world: Any) -> None:
    orders = {
        "plain": None, "last": "last", "five": 5, "first": "first",
        "minus_one": -1, "minus_five": -5, "huge": 999999,
    }  # fmt: skip
    text = {
        key: {"test.nop": [{"order": value}] if value else []} for key, value in orders.items()
    }
    rows = world(json.dumps(text)).ran()
    assert ids(rows) == ["first", "five", "plain", "huge", "minus_five", "minus_one", "last"]


def test_requisites_move_up_to_just_before_the_states_that_need_them(world: Any) -> None:
    text = """
z_first: {test.nop: [{order: 1}, {require: [{test: y_late}]}]}
y_late: {test.nop: [{order: 50}]}
x_mid: {test.nop: [{order: 20}]}
"""
    assert ids(world(text).ran()) == ["y_late", "z_first", "x_mid"]


def test_required_file_runs_completely_before_the_states_that_need_it(world: Any) -> None:
    text = (
        "include: [lib]\napp: {test.nop: [{require: [{sls: lib}, {test: own}]}]}\nown: test.nop\n"
    )
    lib = "lib_b: {test.nop: [{order: last}]}\nlib_a: test.nop\n"
    assert ids(world(text, files={"lib.sls": lib}).ran()) == ["lib_a", "own", "lib_b", "app"]


def test_names_keep_their_order_number(world: Any) -> None:
    text = "m: {test.nop: [{order: 7}, {names: [b, a]}]}\nx: {test.nop: [{order: 8}]}\n"
    low = world(text).call("state.show_low_sls", "t")
    assert [one["order"] for one in low] == [7.0001, 7.0002, 8]


def test_loops_are_refused_and_shown(world: Any) -> None:
    text = """
a: {test.nop: [{require: [{test: b}]}]}
b: {test.nop: [{watch: [{test: a}]}]}
bystander: test.nop
"""
    w = world(text)
    (fault,) = w.faults()
    assert fault.startswith("Recursive requisites were found: ")
    assert "test: a (salt://t.sls:2)" in fault and "test: b" in fault
    assert "bystander" not in fault
    assert w.host.steps == []


def test_state_that_needs_itself_is_a_loop(world: Any) -> None:
    assert "Recursive" in world("a: {test.nop: [{require: [{test: a}]}]}\n").faults()[0]


def test_prereq_of_what_needs_it_is_a_loop(world: Any) -> None:
    text = "a: {test.nop: [{prereq: [{test: b}]}]}\nb: {test.nop: [{require: [{test: a}]}]}\n"
    assert "Recursive" in world(text).faults()[0]


def test_star_means_the_others(world: Any) -> None:
    text = "a: {test.nop: [{require: [{test: '*'}]}]}\nb: test.nop\nc: test.nop\n"
    assert ids(world(text).ran()) == ["b", "c", "a"]


def timed(world: Any, data: Any, files: Any = None) -> Any:
    w = world(json.dumps(data), files=files)
    # Processor time: others may be at work on this machine.
    started = time.process_time()
    compiled = api.compile_sls(w.context, "t")
    assert compiled.errors == ()
    rows = api.run(w.context, compiled.low)
    return list(rows.values()), time.process_time() - started


def test_ten_thousand_states_in_one_chain(world: Any) -> None:
    count = 10_000
    data = {
        f"s{n}": {"test.nop": [{"require": [{"test": f"s{n + 1}"}]}] if n < count - 1 else []}
        for n in range(count)
    }
    rows, seconds = timed(world, data)
    assert rows[0]["__id__"] == f"s{count - 1}" and rows[-1]["__id__"] == "s0"
    assert seconds < 20


def test_many_that_need_a_large_file_do_not_multiply(world: Any) -> None:
    data = {
        "include": ["u"],
        **{f"s{n}": {"test.nop": [{"require": [{"sls": "u"}]}]} for n in range(2000)},
    }
    large = json.dumps({f"u{n}": {"test.nop": []} for n in range(4000)})
    rows, seconds = timed(world, data, {"u.sls": large})
    # Eight million edges would take longer than this.
    assert len(rows) == 6000 and seconds < 20


def test_many_globs_over_many_states(world: Any) -> None:
    data: dict[str, Any] = {f"w{n}": {"test.nop": []} for n in range(5000)}
    for n in range(200):
        data[f"g{n}"] = {"test.nop": [{"require": [{"test": f"w{n}*"}]}]}
    rows, seconds = timed(world, data)
    assert len(rows) == 5200 and seconds < 20

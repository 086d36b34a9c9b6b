"""Low data as the show functions print it; each case answered by Salt 3008.5 too."""

from typing import Any


def ids(chunks: Any) -> Any:
    return [chunk["__id__"] for chunk in chunks]


def by_id(chunks: Any) -> Any:
    return {chunk["__id__"]: chunk for chunk in chunks}


def low(world: Any, text: Any, **files: Any) -> Any:
    named = {f"{name}.sls": one for name, one in files.items()}
    return world(text, files=named).call("state.show_low_sls", "t")


def lowstate(world: Any, text: Any, **files: Any) -> Any:
    files = {f"{name}.sls": one for name, one in files.items()}
    files["top.sls"] = "base: {'*': [t]}\n"
    return world(text, files=files).call("state.show_lowstate")


def test_watch_is_shown_as_require_where_nothing_reacts(world: Any) -> None:
    chunks = by_id(
        low(
            world,
            "f: {environ.setenv: [{value: x}, {require: [{test: a}]}, {watch: [{test: b}]}]}\n"
            "any: {environ.setenv: [{value: x}, {watch_any: [{test: b}]}]}\n"
            "gone: {nosuch.thing: [{watch: [{test: b}]}]}\n"
            "t: {test.nop: [{watch: [{test: b}]}]}\na: test.nop\nb: test.nop\n",
        )
    )
    assert chunks["f"]["require"] == [{"test": "a"}, {"test": "b"}] and "watch" not in chunks["f"]
    assert chunks["any"]["require_any"] == [{"test": "b"}]
    assert chunks["gone"]["require"] == [{"test": "b"}]
    assert chunks["t"]["watch"] == [{"test": "b"}]


def test_services_react_on_linux_only(world: Any) -> None:
    text = "s: {service.running: [{watch: [{test: b}]}]}\nb: test.nop\n"
    for kernel, kind in (("Linux", "watch"), ("FreeBSD", "require")):
        w = world(text, grains={"kernel": kernel})
        assert w.call("state.show_low_sls", "t")[1][kind] == [{"test": "b"}]


def test_bare_number_or_truth_value_is_no_argument(world: Any) -> None:
    (chunk,) = low(world, "a:\n  test.nop:\n    - false\n    - 5\n    - name: b\n")
    assert chunk == {
        "state": "test", "fun": "nop", "__id__": "a", "name": "b", "order": 10000,
        "__sls__": "t", "__env__": "base",
    }  # fmt: skip


def test_order_that_shares_its_item_with_something_before_it_does_not_count(world: Any) -> None:
    chunks = by_id(
        low(
            world,
            "a:\n  test.nop:\n    - comment: x\n      order: 5\n"
            "b:\n  test.nop:\n    - order: 6\n      comment: x\n",
        )
    )
    assert (chunks["a"]["order"], chunks["a"]["comment"]) == (10000, "x")
    assert (chunks["b"]["order"], chunks["b"]["comment"]) == (6, "x")


def test_extend_can_set_the_order_and_one_name_for_many(world: Any) -> None:
    text = "include: [u]\nextend:\n  a: {test: [{order: 2}, {name: one}]}\n"
    chunks = lowstate(world, text, u="a: {test.nop: [{names: [x, y]}]}\nb: {test.nop: []}\n")
    assert [(chunk["name"], chunk["order"]) for chunk in chunks] == [("one", 2), ("b", 10001)]


def test_arguments_can_not_change_what_is_called(world: Any) -> None:
    (chunk,) = low(world, "a: {test.nop: [{state: other}, {fun: more}]}\n")
    assert (chunk["state"], chunk["fun"]) == ("test", "nop")


def test_name_with_a_leading_underscore_is_a_module_without_a_function(world: Any) -> None:
    for show in ("state.show_sls", "state.show_low_sls"):
        answer = world("a: {test.nop: [], _b: [1]}\n").call(show, "t")
        assert "No function declared in state 'a' in SLS 't'" in answer[0]


def test_requisite_names_no_function(world: Any) -> None:
    (fault,) = low(world, "a: test.nop\nb: {test.nop: [{require: [{test.nop: a}]}]}\n")
    assert "Invalid requisite type 'test.nop' in state 'b'" in fault
    assert "did you mean 'test'?" in fault


def test_prereq_targets_are_shown_twice(world: Any) -> None:
    chunks = low(
        world,
        "target: {test.nop: [{require: [{test: need}]}]}\nneed: test.nop\n"
        "first: {test.nop: [{prereq: [{test: target}]}]}\nend: test.nop\n",
    )
    assert ids(chunks) == ["need", "target", "first", "target", "end"]
    assert chunks[1] == chunks[3] and chunks[1]["__prereq__"] is True
    assert chunks[2]["__prerequiring__"] is True
    assert not {"__prereq__", "__prerequiring__"} & {*chunks[0], *chunks[4]}


def test_one_file_shows_reverse_requisites_as_written(world: Any) -> None:
    chunks = low(world, "b: test.nop\na: {test.nop: [{require_in: [{test: b}]}]}\n")
    assert ids(chunks) == ["b", "a"]
    assert "require" not in chunks[0] and chunks[1]["require_in"] == [{"test": "b"}]


def test_highstate_shows_them_at_their_target(world: Any) -> None:
    chunks = lowstate(
        world,
        "b: {test.nop: [{require: [{test: c}]}]}\nc: test.nop\n"
        "a: {test.nop: [{require_in: [{test: b}]}, {watch_in: [{test: c}]}]}\n"
        "p: {test.nop: [{prereq_in: [{test: q}]}]}\nq: test.nop\n",
    )
    assert ids(chunks) == ["a", "c", "b", "p", "q", "p"]
    shown = by_id(chunks)
    assert shown["b"]["require"] == [{"test": "c"}, {"test": "a"}]
    assert shown["c"]["watch"] == [{"test": "a"}]
    assert shown["q"]["prereq"] == [{"test": "p"}]


def test_watch_that_another_state_puts_in_is_require_too(world: Any) -> None:
    chunks = lowstate(
        world,
        "f: {environ.setenv: [{value: x}, {watch: [{test: b}]}]}\nb: test.nop\n"
        "a: {test.nop: [{watch_in: [{environ: f}]}, {listen_in: [{test: b}]}]}\n",
    )
    assert by_id(chunks)["f"]["require"] == [{"test": "b"}, {"test": "a"}]
    assert "watch" not in by_id(chunks)["f"] and "listen" not in by_id(chunks)["b"]


def test_high_data_shows_extends_and_excludes_as_written(world: Any) -> None:
    files = {
        "top.sls": "base: {'*': [t]}\n",
        "u.sls": "extend: {a: {test: [{order: 2}]}}\nexclude: [{id: b}]\nb: test.nop\n",
    }
    text = "include: [u]\na: test.nop\nextend: {b: {test.fail_without_changes: []}}\n"
    w = world(text + "exclude: [v]\n", files=files)
    high = w.call("state.show_highstate")
    assert high == w.call("state.show_sls", "t")
    assert high["__exclude__"] == ["v", {"id": "b"}]
    place = {"__env__": "base"}
    assert high["__extend__"] == [
        {"b": {"test": ["fail_without_changes"], "__sls__": "t", **place}},
        {"a": {"test": [{"order": 2}], "__sls__": "u", **place}},
    ]
    assert {"a", "b"} < {*high}


def test_names_list_puts_itself_into_its_target_once(world: Any) -> None:
    chunks = lowstate(
        world, "b: test.nop\na: {test.nop: [{names: [x, y]}, {require_in: [{test: b}]}]}\n"
    )
    assert ids(chunks) == ["a", "a", "b"]
    assert chunks[2]["require"] == [{"test": "a"}]


def test_modules_with_their_function_in_the_list_come_first(world: Any) -> None:
    text = "a:\n  test.nop: []\n  environ: [setenv, {value: x}]\n"
    assert [chunk["state"] for chunk in low(world, text)] == ["environ", "test"]


def test_direct_requisite_moves_a_state_and_an_indirect_one_does_not(world: Any) -> None:
    chunks = low(
        world,
        "c: {test.nop: [{order: 30}]}\nb: {test.nop: [{order: 20}, {require: [{test: c}]}]}\n"
        "a: {test.nop: [{order: 1}, {require: [{test: b}]}]}\nx: {test.nop: [{order: 10}]}\n",
    )
    assert ids(chunks) == ["x", "c", "b", "a"]


def test_weaker_wait_behind_a_stronger_one_moves_nothing(world: Any) -> None:
    strong = "w: {test.nop: [{order: 200}, {watch: [{test: s}]}]}\n"
    weak = "r: {test.nop: [{order: 1}, {require: [{test: s}]}]}\n"
    rest = "s: {test.nop: [{order: 300}]}\nx: {test.nop: [{order: 100}]}\n"
    assert ids(low(world, strong + weak + rest)) == ["x", "s", "r", "w"]
    assert ids(low(world, weak + strong + rest)) == ["s", "r", "x", "w"]


def test_sls_requisite_means_what_the_file_itself_brought_in(world: Any) -> None:
    chunks = low(
        world,
        "include: [shared, lib]\na: {test.nop: [{order: 1}, {require: [{sls: lib}]}]}\n"
        "z: {test.nop: [{order: 2}]}\n",
        shared="s: {test.nop: [{order: 3}]}\n",
        lib="include: [shared]\nl: {test.nop: [{order: 4}]}\n",
    )
    assert ids(chunks) == ["l", "a", "z", "s"]

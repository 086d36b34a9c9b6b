"""The state.* functions."""

from collections.abc import Mapping
from typing import Any

import pytest

from catena.core.errors import NotFoundError, PillarError, UsageError

SLS = """
include: [inc]
a:
  test.nop:
    - name: aa
    - require: [{test: b}]
    - watch_in: [{test: b2}]
b2: test.nop
"""
INC = "b:\n  test:\n    - nop\n    - names: [x, y]\n"


@pytest.fixture
def w(world: Any) -> Any:
    return world(SLS, files={"inc.sls": INC, "empty.sls": ""})


def test_show_sls_is_the_high_data(w: Any) -> None:
    assert w.call("state.show_sls", "t") == {
        "b": {
            "test": ["nop", {"names": ["x", "y"]}, {"order": 10000}],
            "__sls__": "inc",
            "__env__": "base",
            "__sls_included_from__": ["t"],
        },
        "a": {
            "test": [
                {"name": "aa"},
                {"require": [{"test": "b"}]},
                {"watch_in": [{"test": "b2"}]},
                "nop",
                {"order": 10001},
            ],
            "__sls__": "t",
            "__env__": "base",
        },
        "b2": {"test": ["nop", {"order": 10002}], "__sls__": "t", "__env__": "base"},
    }


def test_show_low_sls_leaves_reverse_requisites_as_written(w: Any) -> None:
    low = w.call("state.show_low_sls", "t")
    assert [one["__id__"] for one in low] == ["b", "b", "a", "b2"]
    assert low[2] == {
        "state": "test",
        "name": "aa",
        "__sls__": "t",
        "__env__": "base",
        "__id__": "a",
        "require": [{"test": "b"}],
        "watch_in": [{"test": "b2"}],
        "order": 10001,
        "fun": "nop",
    }


def test_single_runs_one_function(w: Any) -> None:
    ((key, row),) = w.call(
        "state.single", "test.succeed_with_changes", name="foo", test=True
    ).items()
    assert key == "test_|-foo_|-foo_|-succeed_with_changes"
    assert row["result"] is None and row["__sls__"] is None
    with pytest.raises(UsageError, match=r"module\.function"):
        w.call("state.single", "test", name="foo")


def test_low_and_high_take_data(w: Any) -> None:
    row = w.call("state.low", {"state": "test", "fun": "nop", "name": "n"})
    assert (row["result"], row["name"]) == (True, "n")
    rows = w.call("state.high", {"hi": {"test": ["nop", {"name": "x"}]}, "ho": {"test": ["nop"]}})
    assert [one["__id__"] for one in rows.values()] == ["ho", "hi"]
    assert "not a dictionary" in w.call("state.high", {"hi": 5})[0]


def test_template_str_is_rendered_and_run(w: Any) -> None:
    assert list(w.call("state.template_str", "{{ 'ts' }}: test.nop\n")) == ["test_|-ts_|-ts_|-nop"]


def test_sls_id_runs_an_id_and_what_it_needs(world: Any) -> None:
    w = world("a: test.nop\nb: {test.nop: [{require: [{test: a}]}]}\nc: test.nop\n")
    ids = [row["__id__"] for row in w.call("state.sls_id", "b", "t").values()]
    assert ids == ["a", "b"]
    with pytest.raises(NotFoundError, match="No matches for ID 'nosuch'"):
        w.call("state.sls_id", "nosuch", "t")


def test_exists(w: Any) -> None:
    assert w.call("state.sls_exists", "t,inc") is True
    assert w.call("state.sls_exists", "nope") is False
    assert w.call("state.id_exists", "a,b", "t") is True
    assert w.call("state.id_exists", "a,zzz", "t") is False


def test_show_states_follows_the_run(world: Any) -> None:
    files = {
        "top.sls": "base: {'*': [one, two]}\n",
        "one.sls": "include: [three]\no: test.nop\n",
        "two.sls": "w: test.nop\n",
        "three.sls": "h: test.nop\n",
    }
    w = world(files=files)
    assert w.call("state.show_states") == ["three", "one", "two"]
    assert list(w.call("state.show_highstate")) == ["o", "h", "w"]
    assert [one["__id__"] for one in w.call("state.show_lowstate")] == ["h", "o", "w"]


def test_empty_file_answers_nothing(w: Any) -> None:
    assert w.apply("empty") == {}
    assert w.context.scratch["retcode"] == 2


def test_exit_code_is_that_of_the_rows(w: Any) -> None:
    w.context.scratch["retcode"] = 3
    w.apply()
    assert w.context.scratch["retcode"] == 0


def test_errors_of_show_functions_set_the_exit_code(w: Any) -> None:
    (fault,) = w.call("state.show_low_sls", "gone")
    assert "gone" in fault and w.context.scratch["retcode"] == 1


def test_pillar_of_the_command_line_overrides_pillar(world: Any) -> None:
    w = world(
        "a: {test.succeed_without_changes: [{comment: {{ pillar['x'] }}}]}\n", pillar={"x": 1}
    )
    assert w.ran()["a"]["comment"] == "1"
    assert w.ran(pillar={"x": 2})["a"]["comment"] == "2"


def test_broken_pillar_stops_before_anything_runs(world: Any) -> None:
    w = world("a: test.nop\n")

    def broken(override: Any = None) -> Any:
        raise PillarError(("Specified SLS 'gone' is not available",), {"kept": 1})

    w.host.compile_pillar = broken
    assert w.apply(pillar={"x": 1}) == [
        "Pillar failed to render with the following messages:",
        "Specified SLS 'gone' is not available",
    ]


def test_force_runs_with_what_is_left_of_a_broken_pillar(world: Any) -> None:
    w = world("a: {test.succeed_without_changes: [{comment: {{ pillar }}}]}\n")

    def broken(override: Any = None) -> Any:
        raise PillarError(("no 'gone'",), {"kept": 1})

    w.host.compile_pillar = broken
    comment = w.ran(force=True)["a"]["comment"]
    assert "'kept': 1" in str(comment) and "_errors" in str(comment)


def test_unknown_options_name_the_nearest(w: Any) -> None:
    with pytest.raises(UsageError, match=r"'pilar'.*'pillar'"):
        w.apply(pilar={})


def test_test_is_apply_in_test_mode(world: Any) -> None:
    w = world("a: test.succeed_with_changes\n")
    assert next(iter(w.call("state.test", "t").values()))["result"] is None


def test_highstate_sees_the_custom_grains_that_it_brings(world: Any) -> None:
    w = world(
        "a: {test.nop: [{name: {{ grains.rack }}}]}\n", files={"top.sls": "base: {'*': [t]}"}
    )
    w.host.fresh_grains = {"id": "m1", "rack": "r42"}
    w.host.sync = lambda kind, saltenv="base": ["grains.rack"] if kind == "grains" else []
    assert list(w.call("state.highstate")) == ["test_|-a_|-r42_|-nop"]


SHOWING = [
    ("state.show_sls", "t"), ("state.show_low_sls", "t"), ("state.show_highstate",),
    ("state.show_lowstate",), ("state.show_top",), ("state.show_states",),
    ("state.sls_exists", "t"), ("state.id_exists", "a", "t"), ("state.sls_id", "a", "t"),
]  # fmt: skip


class BrokenPillar(Mapping[str, Any]):
    """A pillar that can't be compiled, as a session has it: found out by looking."""

    def _fail(self, *_: Any) -> Any:
        raise PillarError(("Rendering SLS 'bad' failed: x; pillar://bad.sls:1",))

    __getitem__ = __iter__ = __len__ = _fail


@pytest.mark.parametrize("call", SHOWING, ids=lambda call: call[0])
def test_states_of_a_host_with_a_broken_pillar_are_not_shown(world: Any, call: Any) -> None:
    w = world("a: test.nop\n", files={"top.sls": "base: {'*': [t]}\n"})
    w.context = w.context.with_(pillar=BrokenPillar())
    assert w.call(*call) == [
        "Pillar failed to render with the following messages:",
        "Rendering SLS 'bad' failed: x; pillar://bad.sls:1",
    ]
    if call[0] != "state.sls_id":
        assert w.context.scratch["retcode"] == 1


def test_use_of_sls_files_is_shown_despite_a_broken_pillar(world: Any) -> None:
    w = world("a: test.nop\n", files={"top.sls": "base: {'*': [t]}\n"})
    w.context = w.context.with_(pillar=BrokenPillar())
    assert w.call("state.show_state_usage")["base"]["used"] == ["t"]

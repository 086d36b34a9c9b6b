from __future__ import annotations

import pytest

from catena.core.errors import RenderError
from catena.reactors.reaction import ReactionKind, parse


def test_new_style_arguments_become_keywords() -> None:
    (found,) = parse({"x": {"local.test.arg": [{"tgt": "m*"}, {"args": [{"a": 1}, "b"]}]}}, "f")
    assert (found.kind, found.fun, found.tgt, found.args) == (
        ReactionKind.local,
        "test.arg",
        "m*",
        (),
    )
    assert found.kwargs == {"a": 1, "b": None}


def test_old_style_arguments_stay_positional_and_cmd_means_local() -> None:
    entry = [{"tgt": "m1"}, {"arg": ["pos", "k=v", "no key=x"]}, {"kwarg": {"z": 3}}]
    (found,) = parse({"x": {"cmd.test.arg": entry}}, "f")
    assert found.kind is ReactionKind.local
    assert found.args == ("pos", "no key=x")
    assert found.kwargs == {"k": "v", "z": 3}


def test_runner_takes_top_level_keys_as_keywords() -> None:
    (found,) = parse({"x": {"runner.event.send": [{"tag": "a/b"}, {"data": {"c": 1}}]}}, "f")
    assert found.kwargs == {"tag": "a/b", "data": {"c": 1}}


def test_reactions_run_in_the_order_of_the_file_unless_ordered() -> None:
    data = {
        "last": {"runner.a.a": [{"order": "last"}]},
        "b": {"runner.b.b": None},
        "a": {"runner.c.c": None},
        "early": {"runner.d.d": [{"order": 1}]},
    }
    assert [reaction.id for reaction in parse(data, "f")] == ["early", "b", "a", "last"]


def test_several_functions_under_one_id_all_count() -> None:
    data = {"x": {"local.test.ping": [{"tgt": "*"}], "runner.a.b": []}}
    assert [reaction.fun for reaction in parse(data, "f")] == ["test.ping", "a.b"]


def test_list_targets_are_joined() -> None:
    (found,) = parse({"x": {"local.test.ping": [{"tgt": ["a", "b"]}, {"tgt_type": "list"}]}}, "f")
    assert (found.tgt, found.tgt_type) == ("a,b", "list")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (["x"], "mapping of ids"),
        ({"x": None}, "x: expected"),
        ({"x": {"locl.test.ping": []}}, "did you mean 'local'"),
        ({"x": {"local.test.ping": [{"arg": [1]}]}}, "needs tgt"),
        ({"x": {"local": [{"tgt": "*"}]}}, "names no function"),
        ({"x": {"runner.a.b": "text"}}, "list of"),
        ({"x": {"runner.a.b": [{"a": 1, "b": 2}]}}, "one `key: value`"),
        ({"x": {"runner.a.b": [{"args": "text"}]}}, "args is a list"),
        ({"x": {"runner.a.b": [{"args": ["/tmp/x"]}]}}, "'/tmp/x' goes below arg"),
        ({"x": {"runner.a.b": [{"order": "soon"}]}}, "order is"),
    ],
)
def test_wrong_file_is_refused_with_its_name_and_id(data: object, text: str) -> None:
    with pytest.raises(RenderError, match="f") as caught:
        parse(data, "f")
    assert text in str(caught.value)


def test_empty_file_asks_for_nothing() -> None:
    assert parse(None, "f") == []

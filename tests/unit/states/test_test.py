"""The test states."""

import json
from typing import Any

import pytest


def row(world: Any, fun: str, arguments: Any = (), **options: Any) -> Any:
    pillar = {"s": "text", "n": 5, "l": [1], "d": {"k": "v"}, "b": True}
    w = world(json.dumps({"x": {f"test.{fun}": list(arguments)}}), pillar=pillar)
    return w.ran(**options)["x"]


@pytest.mark.parametrize(
    ("fun", "result", "in_test_mode", "changes"),
    [
        ("nop", True, True, False),
        ("succeed_without_changes", True, True, False),
        ("succeed_with_changes", True, None, True),
        ("fail_without_changes", False, False, False),
        ("fail_with_changes", False, None, True),
    ],
)
def test_results(world: Any, fun: Any, result: Any, in_test_mode: Any, changes: Any) -> None:
    found, tried = row(world, fun), row(world, fun, test=True)
    assert (found["result"], bool(found["changes"])) == (result, changes)
    assert (tried["result"], bool(tried["changes"])) == (in_test_mode, changes)


def test_configurable_state_returns_the_given_result(world: Any) -> None:
    found = row(
        world,
        "configurable_test_state",
        [{"changes": False}, {"result": False}, {"comment": "c"}, {"warnings": "w"}],
    )
    assert (found["result"], found["changes"]) == (False, {})
    assert (found["comment"], found["warnings"]) == ("c", ["w"])
    assert row(world, "configurable_test_state", [{"result": False}], test=True)["result"] is None


@pytest.mark.parametrize(
    ("arguments", "comment"),
    [
        ([{"present": ["s", "d:k"]}], ""),
        ([{"string": "s"}, {"integer": "n"}, {"listing": "l"}], ""),
        ([{"dictionary": "d"}, {"boolean": "b"}], ""),
        ([{"present": ["zz"]}], 'Pillar key "zz" is missing.\n'),
        ([{"integer": "b"}], "Pillar key \"b\" is not <class 'int'>.\n"),
    ],
)  # fmt: skip
def test_check_pillar(world: Any, arguments: Any, comment: Any) -> None:
    found = row(world, "check_pillar", arguments)
    assert (found["result"], found["comment"]) == (not comment, comment)


def test_show_notification_needs_a_text(world: Any) -> None:
    assert row(world, "show_notification", [{"text": "read me"}])["comment"] == "read me"
    assert row(world, "show_notification")["result"] is False

"""Functions of templates that give values; expected values are those that Salt 3008.5 gave."""

from __future__ import annotations

from typing import Any, cast

import pytest

from catena.core.context import Context
from catena.core.plugins import FunctionMark, Registry, StateMark
from catena.runtime.session import execution_index

PILLAR = {"a": {"b": {"c": 1}, "n": None}, "role": "web", "roles": ["db", "x"], 1: "int"}
GRAINS = {"id": "m1", "os_family": "Debian", "empty": "", "site": "north"}
OPTS = {"id": "m1", "mysql.host": "h", "a": {"z": 9}}
A = {"a": 1, "l": [1, 2], "d": {"x": 1, "l": ["p"]}}
B = {"a": 2, "l": [2, 3], "d": {"y": 2, "l": ["q"]}, "n": None}


@pytest.fixture
def context() -> Context:
    none = cast(Any, None)
    functions = Registry("function", execution_index(), FunctionMark)
    return Context(OPTS, GRAINS, PILLAR, functions, Registry("state", {}, StateMark), none, none)


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "value"),
    [
        ("pillar.fetch", ["nope"], {}, ""),
        ("pillar.fetch", ["a:b:c"], {}, 1),
        ("pillar.filter_by", [{"web": {"p": 1}, "default": {}}, "role"], {}, {"p": 1}),
        ("pillar.filter_by", [{"x": {"p": 1}, "default": {"d": 1}}, "role"], {}, {"d": 1}),
        ("pillar.filter_by", [{"x": 1}, "role"], {}, None),
        (
            "pillar.filter_by",
            [{"d*": {"p": 1}, "base": {"z": 0}}, "roles"],
            {"base": "base", "merge": {"m": 1}},
            {"z": 0, "p": 1, "m": 1},
        ),
        ("grains.has_value", ["empty"], {}, True),
        ("grains.has_value", ["nope"], {}, False),
        ("config.dot_vals", ["mysql"], {}, {"mysql.host": "h"}),
        ("config.merge", ["site"], {}, ""),
        ("config.get", ["a"], {"merge": "recurse"}, {"b": {"c": 1}, "n": None, "z": 9}),
        ("config.get", ["a:b"], {"merge": "recurse", "default": {"q": 1}}, {"c": 1}),
        ("config.get", ["nope"], {"merge": "recurse", "default": {"q": 1}}, {"q": 1}),
        ("config.manage_mode", ["644"], {}, "0644"),
        ("config.manage_mode", [420], {}, "0420"),
        ("config.manage_mode", [None], {}, None),
        ("match.ifelse", ["x*", 1, "m*", 2, 3], {}, 2),
        ("match.ifelse", [False, 1, 3], {}, 3),
        (
            "match.ifelse",
            ["G@os_family:Debian", {"x": 1}, {}],
            {"merge": {"y": 2}},
            {"x": 1, "y": 2},
        ),
        ("slsutil.merge", [A, B], {"strategy": "aggregate"}, B),
        ("slsutil.merge", [{"k": 1, **A}, B], {"strategy": "aggregate"}, {"k": 1, **B}),
        (
            "slsutil.merge",
            [{"a": 1, "b": 2}, {"a": 3, "c": 4}],
            {"strategy": "list"},
            {"a": [1, 3], "b": 2},
        ),
        ("slsutil.merge", [A, B], {"strategy": "bogus"}, {**B, "d": {"x": 1, "l": ["q"], "y": 2}}),
        (
            "slsutil.merge",
            [{"l": [1]}, {"l": [2]}],
            {"strategy": "none", "merge_lists": True},
            {"l": [2]},
        ),
        ("slsutil.serialize", ["yaml", {"b": [1, "é"], "a": {}}], {}, 'a: {}\nb: [1, "\\xE9"]'),
        ("slsutil.serialize", ["yaml", {"b": [1]}], {"default_flow_style": False}, "b:\n- 1"),
        ("slsutil.serialize", ["yaml", "x"], {}, "x"),
        ("slsutil.serialize", ["json", {"b": "é"}], {}, '{"b": "é"}'),
        ("slsutil.boolstr", ["False", "on", "off"], {}, "on"),
        ("slsutil.boolstr", [0, "on", "off"], {}, "off"),
        (
            "slsutil.banner",
            [],
            {
                "title": "A title of words",
                "text": "x",
                "width": 16,
                "commentchar": " *",
                "borderchar": "*",
            },
            " ***************\n *             *\n *  A title of *\n *    words    *\n"
            " *             *\n * x           *\n ***************",
        ),
    ],
)
def test_a_function_gives_what_salt_gives(
    context: Context, fun: str, args: list[Any], kwargs: dict[str, Any], value: Any
) -> None:
    assert context.call(fun, *args, **kwargs) == value

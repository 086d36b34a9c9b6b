"""Expected values are those that Salt 3008.5 gave."""

from __future__ import annotations

from typing import Any

import pytest

from catena.renderers.pipeline import render
from catena.renderers.source import Source, SourceError

HEAD = """\
.params:
  stateconf.set:
    - port: 80
# --- end of state config ---
"""


def rendered(context: Any, text: str) -> Any:
    return render(context, Source(text, "salt://web/site.sls", sls="web.site")).data


def test_ids_with_a_dot_belong_to_their_file(make_context: Any) -> None:
    text = f"""#!stateconf
{HEAD}
.run: {{test.nop: [{{port: {{{{ params.port }}}}}}, {{sd: {{{{ sls_dir }}}}}}]}}
other: {{test.nop: [{{require: [{{test: .run}}]}}]}}
"""
    assert list(rendered(make_context(), text).items()) == [
        ("other", {"test.nop": [{"require": [{"test": "web.site::run"}]}]}),
        ("web.site::params", {"stateconf.set": [{"port": 80}]}),
        ("web.site::run", {"test.nop": [{"name": "run"}, {"port": 80}, {"sd": "web"}]}),
        (
            "web.site::goal",
            {
                "stateconf.set": [
                    {
                        "require": [
                            {"stateconf": "web.site::params"},
                            {"test": "web.site::run"},
                            {"test": "other"},
                        ]
                    }
                ]
            },
        ),
    ]


def test_options_order_the_states(make_context: Any) -> None:
    text = "#!stateconf -Gos yaml . jinja\n.one: {test.nop: []}\ntwo: test.nop\n"
    assert rendered(make_context(), text) == {
        "two": {"test.nop": [{"require": [{"test": "web.site::one"}]}]},
        "web.site::one": {"test.nop": [{"name": "one"}]},
        "web.site::start": {"stateconf.set": [{"require_in": [{"test": "web.site::one"}]}]},
    }


def test_data_includes_and_foreign_ids_are_made_global(make_context: Any) -> None:
    text = """#!jinja|yaml|stateconf -p -G
include: [.other, ..base]
exclude: [{sls: .old}]
extend: {.other::run: {test: [{port: 99}]}}
"""
    assert rendered(make_context(), text) == {
        "include": [{"base": "web.other"}, {"base": "base"}],
        "exclude": [{"sls": "web.old"}],
        "extend": {"web.other::run": {"test": [{"name": "other::run"}, {"port": 99}]}},
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!stateconf -x\na: test.nop", "no option -x"),
        ("#!stateconf yaml\na: test.nop", "written as 'yaml . jinja'"),
        ("#!stateconf\n.goal: test.nop", "made by stateconf itself"),
        ("#!stateconf -o\na: {test.nop: [{names: [x]}]}", "has names"),
        ("#!stateconf -o\na: {test.nop: [{require: [{test: b}]}]}\nb: test.nop", "stands after"),
        ("#!stateconf\ninclude: [....x]", "above the top"),
        ("#!yaml|stateconf\na: 1", "needs text"),
    ],
)
def test_misuse_is_a_fault_of_the_file(make_context: Any, text: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        rendered(make_context(), text)

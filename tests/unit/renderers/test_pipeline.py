from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

from catena.core.plugins import FunctionMark, Plugin, Registry
from catena.core.template_calls import noting_calls
from catena.core.types import SourceLine
from catena.renderers.calls import FunctionCalls
from catena.renderers.pipeline import pipeline_of, render
from catena.renderers.source import DuplicateKeyError, Rendered, Source, SourceError
from catena.renderers.templates import render_file


def sls(context: Any, text: str, **options: Any) -> Rendered:
    source = Source(text, "salt://app/init.sls", sls="app", path="app/init.sls")
    return render(context, source, **options)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a: 1", ("jinja", "yaml")),
        ("#!yaml\na: 1", ("yaml",)),
        ("#!jinja | json\n{}", ("jinja", "json")),
        ("#!jinja mako=off|yaml\n", ("jinja", "yaml")),
        ("#!/bin/sh\na", ("jinja", "yaml")),
        ("#!\na: 1", ("jinja", "yaml")),
        ("#!yaml_jinja\na: 1", ("jinja", "yaml")),
        (" #!yaml\n", ("jinja", "yaml")),
    ],
)
def test_first_line_names_the_renderers(text: str, names: tuple[str, ...]) -> None:
    assert tuple(stage.name for stage in pipeline_of(text)) == names


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: {{ 1 + 1 }}\n", {"a": 2}),
        ('#!yaml\na: "{{ raw }}"\n', {"a": "{{ raw }}"}),
        ('#!jinja|json\n{"a": {{ 1 + 1 }}}', {"a": 2}),
        ("#!json\n", None),
        ("#!text\nplain {{ x }}\n", "plain {{ x }}\n"),
        ("#!jinja\n{{ 1 }}", "1"),
        ("", None),
        ("{# nothing #}\n", None),
    ],
)
def test_text_goes_through_its_renderers(make_context: Any, text: str, data: Any) -> None:
    assert sls(make_context(), text).data == data


@pytest.mark.parametrize(
    ("opts", "text"),
    [
        ({"renderer_blacklist": ["py"]}, "#!py\ndef run(): return {}\n"),
        ({"renderer_whitelist": ["yaml"]}, "a: 1\n"),
        ({"renderer_blacklist": ["jinja"]}, "#!stateconf\na: test.nop\n"),
    ],
)
def test_forbidden_renderer_refuses_the_file(
    make_context: Any, opts: dict[str, Any], text: str
) -> None:
    with pytest.raises(SourceError, match="forbids the renderer"):
        sls(make_context(opts=opts), text)


def test_mako_renders_where_it_is_installed(make_context: Any) -> None:
    pytest.importorskip("mako")
    text = "#!mako|yaml\n% for i in range(2):\nk${i}: ${grains['os']} ${sls}\n% endfor\n"
    assert sls(make_context(), text).data == {"k0": "Debian app", "k1": "Debian app"}
    with pytest.raises(SourceError, match="Mako"):
        sls(make_context(), "#!mako|yaml\na: ${nope}\n")


@pytest.mark.parametrize(
    ("opts", "text", "data"),
    [
        ({"jinja_sls_env": {"trim_blocks": True}}, "#!jinja\n{% if 1 %}\na{% endif %}\nb", "ab"),
        ({"jinja_env": {"trim_blocks": True}}, "#!jinja\n{% if 1 %}\na{% endif %}", "\na"),
        ({"jinja_lstrip_blocks": True}, "#!jinja\n  {% if 1 %}a{% endif %}", "a"),
        (
            {"jinja_sls_env": {"line_statement_prefix": "%"}},
            "#!jinja\n% for i in [1, 2]\nv{{ i }}\n% endfor\n",
            "v1\nv2\n\n",
        ),
        ({}, '#!jinja\n#jinja2: {"trim_blocks": true}\n{% if 1 %}\na{% endif %}\nb', "ab"),
        ({}, '#!jinja\n#jinja2: {"keep_trailing_newline": true}\nx\n', "x\n\n"),
        ({}, "#!jinja\n#jinja2: [1]\nx\n", "#jinja2: [1]\nx\n"),
    ],
)
def test_configuration_and_a_file_set_options_of_jinja(
    make_context: Any, opts: dict[str, Any], text: str, data: str
) -> None:
    assert sls(make_context(opts=opts), text).data == data


def test_line_below_the_options_of_jinja_keeps_its_number(make_context: Any) -> None:
    with pytest.raises(SourceError) as caught:
        sls(make_context(), '#jinja2: {"trim_blocks": true}\na: 1\na: 2\n')
    assert caught.value.place.line == 3


def test_python_file_gives_what_its_run_returns(make_context: Any) -> None:
    text = (
        "#!py\n"
        "def run():\n"
        "    return [__grains__['os'], __salt__['test.echo']('x'), __pillar__, __opts__['id'],\n"
        "            sls, saltenv, given]\n"
    )
    data = sls(make_context(), text, variables={"given": 1}).data
    assert data == ["Debian", "x", {"port": 80}, "web1", "app", "base", 1]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs tomllib")
def test_toml_is_read(make_context: Any) -> None:
    assert sls(make_context(), "#!toml\n[a]\nb = 1\n").data == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("#!yml\na: 1\n", 1, "unknown renderer 'yml'; did you mean 'yaml'?"),
        ("#!yaml|jinja\na: 1\n", 1, "needs text"),
        ('#!json\n{\n "a": ]}\n', 3, "not JSON"),
        ("#!json\n" + "[" * 100_000, 2, "nested too deep"),
        ("#!toml\na = 1\nb = \n", 3, "not TOML"),
        ("#!py\n\ndef run(:\n", 3, "Python: "),
        ("#!py\ndef run():\n    x = 1\n    return 1 / 0\n", 4, "ZeroDivisionError"),
        ("#!py\na = 1\n", 0, "defines no run()"),
        ("a: 1\n\n{{ nosuch }}\n", 3, "'nosuch' is undefined"),
        (
            "{% set x = 1 %}\n\na: 1\n{% for i in 'ab' %}\nb: {{ i }}\n{% endfor %}",
            5,
            "conflicting",
        ),
        ("#!jinja|yaml\na: 1\na: 2\n", 3, "conflicting"),
    ],
)
def test_faults_of_every_renderer_name_the_line_that_was_written(
    make_context: Any, text: str, line: int, reason: str
) -> None:
    with pytest.raises(SourceError) as caught:
        sls(make_context(), text)
    assert caught.value.place == SourceLine("salt://app/init.sls", line)
    assert reason in str(caught.value)


def test_fault_in_rendered_text_shows_both_texts(make_context: Any) -> None:
    with pytest.raises(SourceError) as caught:
        sls(make_context(), "a: 1\nb: {{ 'x: y' }}\n")
    assert "> 2 | b: {{ 'x: y' }}" in str(caught.value)
    assert "rendered (line 2): b: x: y" in str(caught.value)


def test_duplicate_made_by_a_loop_is_shown_where_it_is_written(make_context: Any) -> None:
    with pytest.raises(DuplicateKeyError) as caught:
        sls(make_context(), "{% for i in [1, 2] %}\nsame:\n  k: {{ i }}\n{% endfor %}\n")
    assert caught.value.place.line == 2


def test_places_survive_loops_and_comments(make_context: Any) -> None:
    text = (
        "{# one\n   two #}\n{% set x = {\n  'a': 1,\n} %}\nfirst:\n  pkg.installed: []\n\n"
        "{%- for n in ['p', 'q'] %}\n{{ n }}:\n  file.managed:\n"
        "    - name: /{{ n }}\n{%- endfor %}\n"
        "last: 1\n"
    )
    rendered = sls(make_context(), text)
    assert rendered.place("first", "pkg.installed").line == 7
    assert rendered.place("p", "file.managed", 0, "name").line == 12
    assert rendered.place("q", "file.managed", 0, "name").line == 12
    assert rendered.place("last").line == 14


def test_managed_files_are_rendered_by_engine(make_context: Any) -> None:
    context = make_context({"app/part.j2": "{{ who }}"})
    variables = {"who": "me", "source": "salt://app/main.j2"}
    text = "{% include './part.j2' %} {{ grains.os }} {{ source }}\n"
    assert render_file(context, text, "jinja", variables) == "me Debian salt://app/main.j2\n"
    python = "def run():\n    return who + context['who']\n"
    assert render_file(context, python, "py", {"who": "x"}) == "xx"
    with pytest.raises(SourceError, match="unknown template engine 'jinj'; did you mean 'jinja'"):
        render_file(context, "", "jinj", {})


def test_custom_renderer_takes_its_place_in_the_pipe(make_context: Any) -> None:
    def shout(context: Any, data: str, saltenv: str = "", sls: str = "", **kwargs: Any) -> Any:
        return io.StringIO(data.replace("NAME", f"{sls}-{saltenv}"))

    def late(prefix: str) -> dict[str, Plugin] | None:
        mark = FunctionMark()
        return {"shout.render": Plugin("shout.render", shout, mark)} if prefix == "shout" else None

    registry = Registry("renderer", {}, FunctionMark, late)
    context = make_context(renderers=registry)
    assert sls(context, "#!jinja|shout|yaml\nNAME: {{ 1 }}\n").data == {"app-base": 1}
    with pytest.raises(SourceError, match="unknown renderer 'whisper'"):
        sls(context, "#!jinja|whisper\n")


def test_custom_renderer_is_noted_in_test_mode(make_context: Any) -> None:
    def own(context: Any, data: str, **kwargs: Any) -> dict[str, int]:
        FunctionCalls(context, "inner")["own.act"]()
        return {"a": 1}

    def provided(prefix: str) -> dict[str, Plugin] | None:
        made: dict[str, Callable[..., Any]] = {"own.render": own, "own.act": lambda context: None}
        return {name: Plugin(name, call, FunctionMark()) for name, call in made.items()}

    registry = Registry("renderer", {}, FunctionMark, provided)
    context = make_context().with_(renderers=registry, functions=registry)
    with noting_calls() as notes:
        assert sls(context, "#!own\nx\n").data == {"a": 1}
    (call,) = notes.calls()
    assert (call.function, call.number) == ("own.render", 1)

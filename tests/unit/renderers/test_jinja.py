from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import LimitError
from catena.core.types import SourceLine
from catena.renderers import jinja
from catena.renderers.jinja import JinjaText
from catena.renderers.source import (
    Source,
    SourceError,
    TemplateFaultError,
    TemplateSyntaxFaultError,
    UndefinedNameError,
    YamlFaultError,
)


def render(context: Context, text: str, path: str = "app/init.sls", **names: Any) -> JinjaText:
    return jinja.render(context, Source(text, f"salt://{path}", sls="app", path=path), names)


def fault(context: Context, text: str, path: str = "app/init.sls") -> SourceError:
    with pytest.raises(SourceError) as caught:
        render(context, text, path)
    return caught.value


def test_salts_names_are_there(make_context: Any) -> None:
    text = (
        "{{ grains.os }} {{ pillar['port'] }} {{ opts.id }} {{ saltenv }} {{ env }} {{ sls }} "
        "{{ slspath }} {{ tpldir }} {{ tplfile }} {{ salt['test.echo'](1) }} "
        "{{ salt.test.echo(2) }}"
    )
    found = render(make_context(), text).text
    assert found == "Debian 80 web1 base base app app app app/init.sls 1 2"


def test_file_at_the_root_has_the_folder_dot(make_context: Any) -> None:
    assert render(make_context(), "{{ tpldir }}|{{ slspath }}", "top.sls").text == ".|"


def test_variables_win_over_the_built_in_names(make_context: Any) -> None:
    assert render(make_context(), "{{ grains }}{{ x }}", grains="g", x=1).text == "g1"


def test_managed_files_do_not_see_the_names_of_an_sls(make_context: Any) -> None:
    source = Source("{{ sls|default('-') }}{{ tpldir|default('-') }}", "salt://f", path="f")
    assert jinja.render(make_context(), source, {}, sls_names=False).text == "--"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\n", "a\n"), ("a", "a"), ("{% if 1 %}\na\n{%- endif -%}\n", "\na\n"), ("a\n\n", "a\n\n")],
)
def test_last_line_end_survives_every_trimming(
    make_context: Any, text: str, expected: str
) -> None:
    assert render(make_context(), text).text == expected


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a\n{{ nosuch }}", "Jinja variable 'nosuch' is undefined; salt", 2),
        ("a\n\n{{ nosuch.x.y }}", "Jinja variable 'nosuch' is undefined; salt", 3),
        ("{{ grians.os }}", "did you mean 'grains'?", 1),
        ("{{ grains.oss }}", "has no attribute 'oss'", 1),
        ("{{ salt['test.ecko'](1) }}", "no function 'test.ecko'; did you mean 'test.echo'?", 1),
        ("{{ salt.test.ecko(1) }}", "no function 'test.ecko'; did you mean 'test.echo'?", 1),
    ],
)
def test_every_undefined_name_is_an_error(
    make_context: Any, text: str, message: str, line: int
) -> None:
    error = fault(make_context(), text)
    assert isinstance(error, UndefinedNameError)
    assert message in str(error)
    assert error.place == SourceLine("salt://app/init.sls", line)


def test_undefined_names_may_be_asked_for(make_context: Any) -> None:
    text = (
        "{{ x|default(1) }}{{ x is defined }}{{ salt['no.fun'] is defined }}{{ 'no.fun' in salt }}"
    )
    assert render(make_context(), text).text == "1FalseFalseFalse"


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("a\n{% if 1 %}\nb\n", TemplateSyntaxFaultError, 2),
        ("a\n{{ 'x'|nosuch }}", TemplateSyntaxFaultError, 2),
        ("{% nosuch %}", TemplateSyntaxFaultError, 1),
        ("a\n\n{{ 1 / 0 }}", TemplateFaultError, 3),
        ("{{ salt['test.boom']() }}", TemplateFaultError, 1),
        ("\n{% from 'gone.jinja' import x %}", TemplateFaultError, 2),
        ("{% from '../../../etc/passwd' import x %}", TemplateFaultError, 1),
        ("{{ ''.__class__ }}", TemplateFaultError, 1),
        ("{{ raise('stop') }}", TemplateFaultError, 1),
    ],
)
def test_faults_name_file_and_line(
    make_context: Any, text: str, kind: type[SourceError], line: int
) -> None:
    error = fault(make_context(), text)
    if "__class__" not in text:
        assert type(error) is kind
    assert error.place == SourceLine("salt://app/init.sls", line)
    assert f"> {line} | {text.splitlines()[line - 1]}" in str(error)


def test_error_in_a_macro_names_all_its_callers(make_context: Any) -> None:
    context = make_context(
        {
            "lib/map.jinja": "{% macro bad(y) %}\n\n{{ y.nope }}\n{% endmacro %}",
            "lib/mid.jinja": "{% from './map.jinja' import bad %}\n{{ bad(1) }}",
        }
    )
    error = fault(context, "a\n\n{% include 'lib/mid.jinja' %}")
    assert error.place == SourceLine("salt://lib/map.jinja", 3)
    assert error.chain == (
        SourceLine("salt://lib/mid.jinja", 2),
        SourceLine("salt://app/init.sls", 3),
    )
    assert "> 3 | {{ y.nope }}" in str(error)
    assert "reached from salt://lib/mid.jinja:2" in str(error)


def test_syntax_fault_in_an_import_is_shown_in_its_own_file(make_context: Any) -> None:
    error = fault(make_context({"x.jinja": "a\n{% endif %}"}), "{% import 'x.jinja' as x %}")
    assert error.place == SourceLine("salt://x.jinja", 2)
    assert "> 2 | {% endif %}" in str(error)
    assert error.chain == (SourceLine("salt://app/init.sls", 1),)


def test_imports_are_relative_to_the_template_that_names_them(make_context: Any) -> None:
    files = {
        "a/b/one.jinja": "{% import '../two.jinja' as t %}{% set x = t.y %}",
        "a/two.jinja": "{% set y = 'deep' %}",
    }
    text = "{% from './b/one.jinja' import x %}{{ x }}"
    assert render(make_context(files), text, "a/init.sls").text == "deep"


def test_imports_without_context_see_salts_names_but_no_variables_of_the_file(
    make_context: Any,
) -> None:
    files = {"m.jinja": "{% set v = grains.os ~ sls ~ own|default('-') %}"}
    text = "{% set own = 1 %}{% import 'm.jinja' as m %}{{ m.v }}"
    assert render(make_context(files), text).text == "Debianapp-"
    with_context = text.replace("as m %}", "as m with context %}")
    assert render(make_context(files), with_context).text == "Debianapp1"


def test_data_files_are_rendered_and_parsed(make_context: Any) -> None:
    files = {"d.yaml": "a: {{ grains.os }}\n", "d.json": '{"b": [1]}', "d.txt": "t\n"}
    text = (
        "{% import_yaml 'd.yaml' as y %}{% import_json 'd.json' as j %}"
        "{% import_text 'd.txt' as t %}"
        "{{ y.a }} {{ j.b[0] }} {{ t }}"
    )
    assert render(make_context(files), text).text == "Debian 1 t"


def test_blocks_of_data_are_parsed(make_context: Any) -> None:
    text = "{% load_yaml as y %}\na: {{ 1 + 1 }}\n{% endload %}{{ y.a + 1 }}"
    assert render(make_context(), text).text == "3"


def test_fault_in_a_data_file_is_shown_in_that_file(make_context: Any) -> None:
    error = fault(make_context({"d.yaml": "a: 1\na: 2\n"}), "x\n{% import_yaml 'd.yaml' as y %}")
    assert isinstance(error, YamlFaultError)
    assert error.place.line == 2
    assert error.place.file.endswith("d.yaml")
    assert error.chain == (SourceLine("salt://app/init.sls", 2),)


def test_templates_may_change_their_own_lists_and_mappings(make_context: Any) -> None:
    text = (
        "{% set d = {} %}{% do d.update({'k': 1}) %}{% set l = [] %}"
        "{% for i in range(9) %}{% if i == 2 %}{% continue %}"
        "{% elif i == 4 %}{% break %}{% endif %}"
        "{% do l.append(i) %}{% endfor %}{{ d }}{{ l }}"
    )
    assert render(make_context(), text).text == "{'k': 1}[0, 1, 3]"


def test_texts_with_escapes_are_printed_so_that_yaml_reads_them_back(make_context: Any) -> None:
    text = "{{ {'m': 'l1\\nl2', 'n': [\"it's\"]} }}"
    assert render(make_context(), text).text == "{'m': \"l1\\nl2\", 'n': [\"it's\"]}"


def test_map_knows_the_line_of_every_rendered_line(make_context: Any) -> None:
    text = (
        "{% set n = 1 %}\n"  # 1
        "top:\n"  # 2
        "{% for i in [1, 2] %}\n"  # 3
        "  k{{ i }}: v\n"  # 4
        "{%- endfor %}\n"  # 5
        "multi: {{ 'a\\nb' }}\n"  # 6
        "end: 1\n"  # 7
    )
    found = render(make_context(), text)
    lines = {line: found.lines(n + 1) for n, line in enumerate(found.text.splitlines()) if line}
    assert lines == {
        "top:": 2,
        "  k1: v": 4,
        "  k2: v": 4,
        "multi: a": 6,
        "b": 6,
        "end: 1": 7,
    }


def test_bytecode_lies_in_a_private_folder_and_is_used_again(
    make_context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"m.jinja": "{% set v = 5 %}"}
    text = "{% import 'm.jinja' as m %}{{ m.v }}"
    assert render(make_context(files), text).text == "5"
    folder = next((tmp_path / "cache").glob("jinja-*"))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(list(folder.iterdir())) == 2

    def never(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(jinja.Environment, "compile", never)
    assert render(make_context(files), text).text == "5"


def test_plain_text_leaves_nothing_in_the_cache(make_context: Any, tmp_path: Path) -> None:
    found = render(make_context(), "a: 1\r\nb: 2\rc: { % }\n")
    assert found.text == "a: 1\nb: 2\nc: { % }\n"
    assert [found.lines(n) for n in (1, 2, 3)] == [1, 2, 3]
    assert not (tmp_path / "cache").exists()


def test_cache_folder_that_others_may_write_to_is_not_used(
    make_context: Any, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    assert render(make_context(), "{{ 1 }}").text == "1"
    assert list((tmp_path / "cache").iterdir()) == []


def test_changed_import_is_seen_by_the_same_process(make_context: Any, tmp_path: Path) -> None:
    context = make_context({"m.jinja": "{% set v = 1 %}"})
    text = "{% import 'm.jinja' as m %}{{ m.v }}"
    assert render(context, text).text == "1"
    file = tmp_path / "root" / "m.jinja"
    file.write_text("{% set v = 2 %}")
    os.utime(file, ns=(1, 1))
    assert render(context, text).text == "2"


def test_output_is_limited(make_context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jinja, "MAX_OUTPUT", 1000)
    with pytest.raises(LimitError, match="renders to more than 1000"):
        render(make_context(), "{% for i in range(1000) %}xx{% endfor %}")


def test_huge_ranges_are_refused(make_context: Any) -> None:
    assert isinstance(fault(make_context(), "{{ range(10**9)|list }}"), TemplateFaultError)


def test_imports_of_imports_see_the_names_of_each_rendering(make_context: Any) -> None:
    context = make_context(
        {
            "one.jinja": "{% import 'two.jinja' as two %}{% set got = two.got %}",
            "two.jinja": "{% set got = sls ~ salt['test.echo']('!') ~ tplfile %}",
        }
    )
    for name in ("first", "second"):
        source = Source(
            "{% import 'one.jinja' as one %}{{ one.got }}", f"salt://{name}.sls", sls=name
        )
        assert jinja.render(context, source, {}).text == f"{name}!two.jinja"


def test_options_show_grains_and_pillar(make_context: Any) -> None:
    text = "{{ opts.id }} {{ opts.grains.os }} {{ opts['pillar'].port }}"
    assert render(make_context(), text).text == "web1 Debian 80"


def test_long_template_takes_time_in_step_with_its_length(make_context: Any) -> None:
    block = "{% if grains.os == 'x' %}a{% else %}b {{ grains.id }}{% endif %}\n"
    context = make_context()

    def seconds(blocks: int) -> float:
        took = []
        for _ in range(4):  # the first one compiles it
            start = time.process_time()
            render(context, block * blocks, f"t{blocks}.sls")
            took.append(time.process_time() - start)
        return min(took)

    # Before lines were found by instruction, four times the length took sixteen times as long.
    # Some machines tell processor time in ticks of 10 ms.
    assert seconds(2400) < 10 * max(seconds(600), 0.02)

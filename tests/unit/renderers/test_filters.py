"""Expected values are those that Salt 3008.5 gave (recorded cases `filters/*`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from catena.renderers import yaml
from catena.renderers.jinja import render
from catena.renderers.source import Source, SourceError

D = "{'b': 1, 'a': [1, 'x', none, true]}"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f"{D}|json", '{"a": [1, "x", null, true], "b": 1}'),
        (f"{D}|json(sort_keys=false)", '{"b": 1, "a": [1, "x", null, true]}'),
        (f"{D}|yaml", "{a: [1, x, null, true], b: 1}"),
        (f"{D}|yaml(false)", "a:\n- 1\n- x\n- null\n- true\nb: 1"),
        (f"{D}|python", "{'a': [1, 'x', None, True], 'b': 1}"),
        ("'q: [1, 2]'|load_yaml", "{'q': [1, 2]}"),
        ("'{\"q\": [1]}'|load_json", "{'q': [1]}"),
        ("'say \"hi\"'|yaml_dquote", '"say \\"hi\\""'),
        ('"it\'s"|yaml_squote', "'it''s'"),
        ("7|yaml_encode", "7"),
        ("none|yaml_encode", "null"),
        ("'yes'|yaml_encode", '"yes"'),
        ("'it needs'|quote", "'it needs'"),
        ("'abc-123'|regex_match('(\\\\w+)-(\\\\d+)')", "('abc', '123')"),
        ("'abc'|regex_match('\\\\d')", "None"),
        ("'nogroup'|regex_match('no')", "('no',)"),
        ("'see abc'|regex_search('a(.)')", "('b',)"),
        ("'a b'|regex_replace('\\\\s', '_')", "a_b"),
        ("'John Doe'|regex_replace('^(\\\\w+) (\\\\w+)$', '\\\\2 \\\\1')", "Doe John"),
        ("'random'|md5", "7ddf32e17a6ac5ce04a8ecbf782ca509"),
        ("'random'|uuid", "3652b285-26ad-588e-a5dc-c2ee65edc804"),
        ("'é'|base64_encode", "w6k="),
        (
            "'get salted'|hmac('shared secret', 'eBWf9bstXg+NiP5AOwppB5HMvZiYMPzEM9W5YMm/AmQ=')",
            "True",
        ),
        ("[1, 2]|avg", "1.5"),
        ("'5.5'|to_num", "5.5"),
        ("'abc'|to_num", "abc"),
        ("'on'|to_bool", "False"),
        ("'YES'|to_bool", "True"),
        ("0.5|to_bool", "False"),
        ("[0]|to_bool", "True"),
        ("2|to_bool", "True"),
        ("'1.5 GiB'|human_to_bytes", "1610612736"),
        ("'2kb'|human_to_bytes(handle_metric=true)", "2000"),
        ("'512'|human_to_bytes('M')", "536870912"),
        ("'many'|human_to_bytes", "0"),
        ("1234567890|strftime('%Y-%m-%d')", "2009-02-13"),
        ("'2002-12-25'|date_format('%d.%m')", "25.12"),
        ("[1, [], none, [2]]|flatten", "[1, 2]"),
        ("[1, [none]]|flatten(preserve_nulls=true)", "[1, None]"),
        ("[3, [4, [2]]]|flatten(levels=1)", "[3, 4, [2]]"),
        ("[1, 2, 3, 3]|unique", "[1, 2, 3]"),
        ("[1, 2]|union([2, 6])", "[1, 2, 6]"),
        ("[1, 2]|symmetric_difference([2, 6])", "[1, 6]"),
        ("[1, 2]|difference([2])", "[1]"),
        ("[1, 2]|intersect([2])", "[2]"),
        ("{'l': ['x', {'y': 'z'}]}|traverse('l:1:y')", "z"),
        ("{'a': 1}|traverse('a:b', 'no')", "no"),
        ("'ab'|product([1])|list", "[('a', 1), ('b', 1)]"),
        ("[1, 2]|zip_longest(['a'], fillvalue='-')|list", "[(1, 'a'), (2, '-')]"),
        ("{'a': 1}|set_dict_key_value('b:c', 2)", "{'a': 1, 'b': {'c': 2}}"),
        ("{'a': [1]}|append_dict_key_value('a', 2)", "{'a': [1, 2]}"),
        ("{'a': 1}|compare_dicts({'a': 2})", "{'a': {'old': 1, 'new': 2}}"),
        ("[1, 2]|compare_lists([2, 3])", "{'new': [3], 'old': [1]}"),
        ("'x'|sequence", "['x']"),
        ("[1]|is_list", "True"),
        ("'x'|is_iter", "False"),
        ("'192.168.0.1/24'|ipaddr", "192.168.0.1/24"),
        ("['192.168.0.1', 'foo', 'fe80::']|ipv4", "['192.168.0.1']"),
        ("'nope'|ipaddr", "None"),
        ("'192.168.0.300'|is_ip", "False"),
        ("'192.168.0.1'|is_ip(options='public')", "False"),
        ("'192.168.0.0/30'|network_hosts", "['192.168.0.1', '192.168.0.2']"),
        ("'192.168.0.0/24'|network_size", "256"),
        ("'fe80::1'|ipwrap", "[fe80::1]"),
        ("'/a'|path_join('b', '/c')", "/a/b/c"),
        ("'ABC' is match('abc', ignorecase=true)", "True"),
        ("['www1', 'db']|select('match', 'www')|list", "['www1']"),
        ("[1] is list", "True"),
        ("'  x'|contains_whitespace", "True"),
        ("[3, 1, 2]|random_shuffle(seed=1) == [3, 1, 2]|random_shuffle(seed=1)", "True"),
    ],
)
def test_filters_and_tests_give_what_salt_gives(
    make_context: Any, expression: str, value: str
) -> None:
    source = Source("{{ " + expression + " }}", "salt://t")
    assert render(make_context(), source, {}).text == value


def test_arguments_of_a_state_are_written_as_its_list(make_context: Any) -> None:
    text = (
        "{{ {'name': '/f', 'mode': '0600', 'require': [{'test': 'x'}]}|dict_to_sls_yaml_params }}"
    )
    written = render(make_context(), Source(text, "salt://t"), {}).text
    assert yaml.load(written) == [
        {"name": "/f"},
        {"mode": "0600"},
        {"require": [{"test": "x"}]},
    ]


def test_long_yaml_is_the_same_data_again(make_context: Any) -> None:
    data = {"k" * 30: ["word " * 40, {"x": "y" * 90}]}
    source = Source("{{ d|yaml }}", "salt://t")
    assert yaml.load(render(make_context(), source, {"d": data}).text) == data


def test_json_of_unknown_objects_is_their_text(make_context: Any) -> None:
    found = render(make_context(), Source("{{ d|json }}", "t"), {"d": {"p": Path("/x")}}).text
    assert json.loads(found) == {"p": "/x"}


@pytest.mark.parametrize(
    "expression",
    ["'x'|method_call('__class__')", "[]|avg", "{}|yaml_encode", "'x'|strftime", "'{'|load_json"],
)
def test_misuse_is_a_fault_with_its_line(make_context: Any, expression: str) -> None:
    with pytest.raises(SourceError) as caught:
        render(make_context(), Source("a\n{{ " + expression + " }}", "salt://t"), {})
    assert caught.value.place.line == 2 or caught.value.chain[-1].line == 2


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("{'a': [{'b': 1}, {'b': 3}]}|json_query('a[*].b')", "[1, 3]"),
        ("{'a': 1}|json_query('zz')", "None"),
        ("[3, 1, 2]|json_query('sort(@)')", "[1, 2, 3]"),
        ("{'u': [{'n': 'x', 's': 'on'}]}|json_query(\"u[?s=='on'].n | [0]\")", "x"),
        ("{'a': 1, 'b': 2}|json_query('keys(@)|length(@)')", "2"),
    ],
)
def test_json_query_is_jmespath(make_context: Any, expression: str, found: str) -> None:
    assert render(make_context(), Source("{{ " + expression + " }}", "t"), {}).text == found


def test_malformed_json_query_is_a_fault_with_its_line(make_context: Any) -> None:
    with pytest.raises(SourceError, match=r"json_query 'a\['"):
        render(make_context(), Source("{{ {}|json_query('a[') }}", "salt://t"), {})


def test_jmespath_and_dateutil_are_not_imported_before_they_are_used() -> None:
    code = (
        "import sys, catena.renderers.jinja, catena.renderers.filters\n"
        "print(sorted({'jmespath', 'dateutil'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert done.stdout == b"[]\n"

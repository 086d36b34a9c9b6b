"""Checks that chunk files read back as the data written, in the form of the reference."""

from __future__ import annotations

import itertools
import re
from typing import Any

import jinja2
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from catena.master.chains import chunk_yaml
from catena.master.chains.chunk_yaml import UnwritableError, write
from catena.renderers import yaml as salt_yaml

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.text("{}%#'\"\\:-? \n\t&*!|>@`,[]", max_size=12),
    st.sampled_from(
        ["yes", "No", "null", "~", "1e3", "0x1f", "010", "2024-01-01", "1:30", "=", "<<", ".inf"]
    ),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    texts,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(texts, values, min_size=1, max_size=4))
@example({"k": "{{ 7*7 }}"})
@example({"k": "{%raw%}{#x#}"})
@example({"{{ salt['cmd.run']('id') }}": {"a": [[["{{"]]]}})
@example({"k": "a\r\nb\x85c\u2028d\ufeffe"})
def test_data_read_back_is_the_data_written(data: dict[str, Any]) -> None:
    text = write(data)
    assert yaml.safe_load(text) == data
    through_jinja = jinja2.Environment(keep_trailing_newline=True).from_string(text).render()
    assert through_jinja == text
    assert salt_yaml.load(through_jinja) == data


class _CautiousDumper(yaml.SafeDumper):
    """Quotes text that PyYAML reads as text and another YAML reader as a number, date or boolean.

    PyYAML implements YAML 1.1, where 09 is no octal number and therefore text. It is the integer 9
    for readers of YAML 1.2 (ruamel.yaml, yq, go-yaml).
    """


def _quote(pattern: str, first: str) -> None:
    _CautiousDumper.add_implicit_resolver(
        f"tag:catena.test,2026:{pattern}", re.compile(f"(?:{pattern})$"), list(first)
    )


_quote(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?", "-+0123456789")
_quote(r"[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?", "-+.")
_quote(r"[-+]?0(?:[bB][01_]+|[oO][0-7_]+|[xX][0-9a-fA-F_]+)", "-+0")
# Numbers to the base 60, and dates without zeros at the front.
_quote(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?", "-+0123456789")
_quote(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?", "0123456789")
_quote(r"[yYnN]", "yYnN")

_PLAIN_TEXTS = st.one_of(
    st.text("abcXZ01239 .:-_/#'\"?,[]()&*!|>%@`~=<+", min_size=1, max_size=12),
    st.text("019.:-_+eExXoOb ", min_size=1, max_size=6),
    st.sampled_from(["1.4.2", "3008.5-1.1", "1.0", "2:7", "2:7.4.052-1", "2024-01-01", "~deb12"]),
)


@given(
    st.dictionaries(
        st.text("abc_", min_size=1, max_size=8),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(-99, 99), _PLAIN_TEXTS),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(st.text("abc_", min_size=1, max_size=8), inner, max_size=3),
            ),
            max_leaves=8,
        ),
        min_size=1,
        max_size=3,
    )
)
@example({"a": "09"})
@example({"a": "-08"})
@example({"a": ["0_9", "09:30", "1e5", "0X9", "2024-1-1", "y"]})
@example({"a": ["---0", "...0", "0---", "wait..."]})
def test_form_is_that_of_an_emitter_with_an_indentation_of_four(data: dict[str, Any]) -> None:
    written = yaml.dump(
        data,
        Dumper=_CautiousDumper,
        indent=4,
        default_flow_style=False,
        sort_keys=False,
        width=10**9,
    )
    assert write(data) == written


@given(st.dictionaries(texts, values, min_size=1, max_size=4))
def test_form_is_indented_by_four_and_has_one_scalar_a_line(data: dict[str, Any]) -> None:
    text = write(data)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for line in text.splitlines():
        assert (len(line) - len(line.lstrip(" "))) % 4 == 0


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("joe", "joe"),
        ("salt://scripts/script_1.sh", "salt://scripts/script_1.sh"),
        ("state.apply", "state.apply"),
        ("on", "'on'"),
        ("'quoted'", "'''quoted'''"),
        ("a #b", "'a #b'"),
        ("key: value", "'key: value'"),
        ("a:", "'a:'"),
        ("", "''"),
        ("two\nlines", '"two\\nlines"'),
        ("{{ x }}", '"\\x7B{ x }}"'),
        ("{ x }", "'{ x }'"),
        ("3008.5-1.1", "3008.5-1.1"),
        ("2:7.4.052-1~deb12u1", "2:7.4.052-1~deb12u1"),
        (">=1.2", "'>=1.2'"),
        ("1.2", "'1.2'"),
        ("1e3", "'1e3'"),
        ("1:30", "'1:30'"),
        ("0x1f", "'0x1f'"),
        ("010", "'010'"),
        ("09", "'09'"),
        ("2024-01-01", "'2024-01-01'"),
        ("20240101-1", "20240101-1"),
        ("-", "'-'"),
        ("--force", "--force"),
        ("--- a", "'--- a'"),
        ("---a", "'---a'"),
        ("wait...", "wait..."),
        ("a --- b", "a --- b"),
        ("echo 'a' > b", "echo 'a' > b"),
        (".inf", "'.inf'"),
    ],
)
def test_text_is_quoted_only_where_it_must_be(text: str, written: str) -> None:
    assert chunk_yaml.quoted(text) == written


def test_quick_look_at_names_keeps_the_rules_for_plain_text() -> None:
    parts = ("a", "Z", "_", "/", ".", "...", "---", "~", "=", "1", "e", "no", " ")
    for text in map("".join, itertools.product(parts, repeat=4)):
        assert (chunk_yaml.quoted(text) == text) == chunk_yaml._is_plain(text), text


@pytest.mark.parametrize(
    "data", [{"k": b"bytes"}, {"k": "\ud800"}, {"x" * 2000: 1}, {1.5: 1}, {"k": object()}]
)
def test_value_that_yaml_cannot_express_is_refused(data: dict[Any, Any]) -> None:
    with pytest.raises(UnwritableError):
        write(data)


def test_endlessly_nested_value_is_refused() -> None:
    data: list[Any] = []
    for _ in range(200):
        data = [data]
    with pytest.raises(UnwritableError):
        write({"k": data})

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.runtime.results import NO_LIMIT, is_plain, plain, shorten, size_of, state_ret

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.sets(st.integers())
    ),
    max_leaves=20,
)


@given(anything)
def test_everything_becomes_json(value: Any) -> None:
    made = plain(value)
    assert json.loads(json.dumps(made, allow_nan=False)) == made


@given(anything)
def test_plain_value_is_not_changed(value: Any) -> None:
    made = plain(value)
    assert is_plain(made) == json.dumps(made, ensure_ascii=False).isascii()
    if is_plain(value):
        # Types too: True is 1 to `==`.
        assert repr(made) == repr(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, 2), [1, 2]),
        ({3, 1}, [1, 3]),
        ({1: {"x": (2,)}}, {"1": {"x": [2]}}),
        (date(2026, 1, 2), "2026-01-02"),
        (1 << 70, str(1 << 70)),
        (float("inf"), "inf"),
        (bytearray(b"x"), b"x"),
        (iter([1, 2]), [1, 2]),
    ],
)
def test_python_types_without_a_json_form_get_the_nearest_one(value: Any, expected: Any) -> None:
    assert plain(value) == expected


def test_loop_in_the_data_ends(value: Any = None) -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert isinstance(plain(loop), list)
    assert not is_plain(loop)


def test_value_that_is_not_sent_has_no_size_limit() -> None:
    assert shorten("x" * 10_000_000, NO_LIMIT)[1] is False


def test_file_name_in_no_encoding_can_be_sent() -> None:
    assert plain(b"a\xff".decode("utf-8", "surrogateescape")).encode("utf-8")


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5000), max_size=20))
def test_shortened_value_keeps_its_names_and_fits(value: dict[str, str]) -> None:
    short, cut = shorten(value, 8000)
    assert cut == (size_of(value) > 8000)
    assert size_of(short) <= 8000 or not isinstance(short, str)
    if isinstance(short, dict):
        assert short.keys() == value.keys()


def test_state_result_that_is_too_large_keeps_its_verdict() -> None:
    row = {"name": "x", "result": False, "changes": {str(n): n for n in range(5000)}}
    kept = state_ret(row, 2000)
    assert (kept["name"], kept["result"]) == ("x", False)

"""Values sent to a host over SSH arrive unchanged."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catena.core.errors import LimitError, RecordError
from catena.runtime.push import values

KEYS = st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.binary(), st.dates())
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.times(),
    st.frozensets(st.integers()),
)
ANY = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(KEYS, inner), st.tuples(inner, inner)
    ),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # on a busy machine
@given(ANY)
def test_value_comes_back_as_it_went(value: Any) -> None:
    assert values.loads(values.dumps(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        {80: "http", "80": "text"},
        {"~": "map", "v": [1]},
        {"~": 1},
        {(1, "a"): b"\x00\xff"},
        datetime(2026, 11, 21, 18, 30, tzinfo=UTC),
        [date(2026, 1, 1), time(1, 2, 3)],
        "\udcff",
        math.inf,
    ],
)
def test_value_without_a_json_type_comes_back(value: Any) -> None:
    assert values.loads(values.dumps(value)) == value


def test_value_that_is_no_data_is_sent_as_text() -> None:
    assert values.loads(values.dumps({"error": ValueError("no")})) == {"error": "no"}


def test_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(LimitError):
        values.dumps(endless)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"~": "map", "v": 1}',
        b'{"~": "map", "v": [[{}, 1]]}',
        b'{"~": "nothing", "v": 1}',
        b'{"~": "bytes"}',
        b'{"~": "bytes", "v": "%%%"}',
        b'{"~": ["map"], "v": 1}',
        b'{"~": "date", "v": "yesterday"}',
        b'{"~": "set", "v": [[]]}',
        b"[" * 100_000,
    ],
)
def test_malformed_value_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        values.loads(data)


def test_too_deeply_nested_value_is_refused() -> None:
    with pytest.raises(LimitError):
        values.loads(b"[" * 900 + b"]" * 900)

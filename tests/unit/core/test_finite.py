from __future__ import annotations

from typing import Any

import pytest

from catena.core.finite import finite, finite_record
from catena.core.job import JobReturn

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NAN, "nan"),
        (-INF, "-inf"),
        (1.5, 1.5),
        ([NAN, (INF, b"x", None)], ["nan", ["inf", b"x", None]]),
        ({"a": {INF: [True]}, 7: NAN}, {"a": {"inf": [True]}, 7: "nan"}),
    ],
)
def test_nan_and_infinities_become_text(value: Any, expected: Any) -> None:
    assert finite(value) == expected


def test_float_fields_of_a_record_keep_infinities() -> None:
    ret = JobReturn("2" * 20, "f", (INF, 1), True, 0, NAN, INF, 1.0)
    found = finite_record(ret)
    assert (found.fun_args, found.value, found.started) == (("inf", 1), "nan", INF)

from __future__ import annotations

from typing import Any, Dict, List

import pytest

from catena.core.job import JobSpec
from catena.minion.inline import answer


class NoJobs:
    """A daemon without jobs."""

    def describe(self) -> List[Dict[str, Any]]:
        return []

    def signal(self, jid: str, number: int) -> str:
        return ""


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "said"),
    [
        (
            "test.ping",
            (1, 2),
            {},
            "ERROR: test.ping: takes 0 positional arguments, 2 were given",
        ),
        (
            "saltutil.find_job",
            (),
            {},
            "ERROR: saltutil.find_job: missing 1 required positional argument: 'jid'",
        ),
        (
            "test.ping",
            (),
            {"x": 1},
            "ERROR: test.ping: got an unexpected keyword argument 'x'",
        ),
    ],
)
def test_wrong_arguments_are_told_as_a_caller_counts_them(
    fun: str, args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    ret = answer(JobSpec("20261121000000000000", fun, args, kwargs), NoJobs(), 0.0)
    assert (ret.value, ret.success, ret.retcode) == (said, False, 1)

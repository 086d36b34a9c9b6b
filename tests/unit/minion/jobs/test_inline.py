from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import pytest

from catena.core.chain_calls import RESUME
from catena.core.job import JobSpec
from catena.minion.jobs.inline import answer, chainless


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
def test_argument_errors_count_positions_as_the_caller_does(
    fun: str, args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    ret = answer(JobSpec("20261121000000000000", fun, args, kwargs), NoJobs(), 0.0)
    assert (ret.value, ret.success, ret.retcode) == (said, False, 1)


def test_host_that_never_saw_a_chain_has_nothing_to_resume(tmp_path: Path) -> None:
    conf, cache = tmp_path / "conf", tmp_path / "cache"
    assert chainless(conf, cache)
    (cache / "chains").mkdir(parents=True)
    (cache / "chains" / ".lock").touch()
    assert chainless(conf, cache)
    ret = answer(JobSpec("20261121000000000000", RESUME), NoJobs(), 0.0, "boot")
    assert (ret.value, ret.success, ret.out, ret.boot_id) == ({}, True, "highstate", "boot")


@pytest.mark.parametrize(
    "left",
    [
        "conf/minion.d/_mgractionchains.conf",
        "conf/minion.d/_mgractionchains.conf.running",
        "cache/chains/131/manifest.json",
    ],
)
def test_leftover_of_a_chain_prevents_an_inline_answer(tmp_path: Path, left: str) -> None:
    (tmp_path / left).parent.mkdir(parents=True)
    (tmp_path / left).touch()
    assert not chainless(tmp_path / "conf", tmp_path / "cache")

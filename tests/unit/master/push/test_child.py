"""The order that the process of a visit passes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from catena.core.job import JobReturn, JobSpec
from catena.master.push import child
from catena.master.push import messages as m
from catena.runtime.push.protocol import RunStep


def test_expiry_of_a_job_does_not_depend_on_the_clock_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[JobSpec] = []
    said: list[Any] = []

    def carry_out(seat: Any, visit: Any, spec: JobSpec, *rest: Any) -> Any:
        taken.append(spec)
        ret = JobReturn(
            spec.jid,
            "test.ping",
            (),
            value=True,
            retcode=0,
            success=True,
            started=1.0,
            duration_seconds=0.0,
        )
        return SimpleNamespace(ret=ret)

    monkeypatch.setattr(child, "carry_out", carry_out)
    master = SimpleNamespace(cancel="", send=said.append, answer=lambda kind: m.Kept())
    visit = SimpleNamespace(forget=lambda: said.append("forgotten"))
    spec = JobSpec("20261121193000000000", "test.ping", not_after=1.0)
    order = m.VisitOrder({}, "web1", "", {}, (), spec, "")
    child._job(order, cast(Any, master), cast(Any, None), cast(Any, visit), None)
    assert [one.not_after for one in taken] == [0.0]
    assert isinstance(said[0], m.Returned)
    assert said[1:] == ["forgotten"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"attempt": 1, "at": 4, "size": 2, "stream": "stderr", "text": "x\n"},
            [m.Printed(1, 4, 2, "stderr", "x\n")],
        ),
        ({"attempt": 1, "at": "4", "size": 2, "stream": "stderr", "text": "x\n"}, []),
        ({}, []),
    ],
)
def test_valid_output_of_the_host_is_reported(data: dict[str, Any], said: list[Any]) -> None:
    told: list[Any] = []
    child._report(cast(Any, SimpleNamespace(send=told.append)), RunStep(1, "output", data))
    assert told == said

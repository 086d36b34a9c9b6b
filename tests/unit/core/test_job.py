from __future__ import annotations

import pytest

from catena.client.requests.jobs import RunJob
from catena.core.frozen import fields
from catena.core.job import FunctionCall, JobSpec
from catena.core.records import encode
from catena.reactors.reaction import Reaction, ReactionKind

CALL = FunctionCall("cmd.run", ("true", 1), {"a": 2}, "web*", "list", {"why": "test"})


@pytest.mark.parametrize(
    "record",
    [
        RunJob(**CALL.fields()),
        JobSpec(jid="1", **CALL.fields()),
        Reaction(id="x", kind=ReactionKind.local, **CALL.fields()),
    ],
    ids=lambda record: type(record).__name__,
)
def test_call_is_extracted_from_every_record_with_its_fields(record: object) -> None:
    assert FunctionCall.of(record) == CALL


@pytest.mark.parametrize("kind", [RunJob, JobSpec, Reaction])
def test_messages_contain_the_fields_of_a_call_without_nesting(kind: type) -> None:
    assert {field.name for field in fields(FunctionCall)} <= {f.name for f in fields(kind)}


def test_fields_method_of_a_call_returns_all_fields() -> None:
    assert encode(CALL) == encode(CALL.fields())


def test_local_job_has_the_arguments_that_a_master_would_send() -> None:
    call = FunctionCall("cmd.run", (2**70, ("a",)), {"at": (1, 2)})
    spec = JobSpec.asked_here("7", call, "alice", 1.5, output_limit=9)
    assert spec == JobSpec(
        "7",
        "cmd.run",
        (str(2**70), ["a"]),
        {"at": [1, 2]},
        user="alice",
        issued=1.5,
        output_limit=9,
    )

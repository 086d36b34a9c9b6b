from __future__ import annotations

import json
from typing import Any

import pytest

from catena.client.replies.jobs import JobEnd
from catena.client.requests import contracts, schema
from catena.client.requests.jobs import RunJob
from catena.core.frozen import MISSING, fields
from tests.json_schema import faults


@pytest.mark.parametrize("name", sorted(contracts()))
def test_every_contract_has_a_schema_with_all_fields(name: str) -> None:
    ask = contracts()[name]
    found = schema.of_ask(ask)
    assert json.loads(json.dumps(found)) == found
    request = found["request"]
    assert list(request["properties"]) == [field.name for field in fields(ask.request)]
    needed = [f.name for f in fields(ask.request) if f.default is MISSING is f.default_factory]
    assert request["required"] == needed
    assert ("item" in found) is bool(ask.streams)


@pytest.mark.parametrize(
    ("data", "fits"),
    [
        ({"jid": "1", "states": {"web1": "done"}}, True),
        ({"jid": "1", "states": {"web1": 1}}, False),
        ({"jid": "1"}, False),
        ({"jid": "1", "states": {}, "more": 1}, False),
        ([], False),
    ],
)
def test_schema_of_a_reply_accepts_valid_data_only(data: Any, fits: bool) -> None:
    assert (faults(schema.schema(JobEnd), data) == []) is fits


def test_schema_of_an_optional_number_accepts_null_and_refuses_true() -> None:
    asked = schema.schema(RunJob)
    given = {"tgt": "*", "fun": "test.ping"}
    assert faults(asked, {**given, "expiry_seconds": None}) == []
    assert faults(asked, {**given, "expiry_seconds": True})


def test_schema_refuses_a_type_that_records_cannot_have() -> None:
    with pytest.raises(TypeError, match="no schema"):
        schema.schema(set)

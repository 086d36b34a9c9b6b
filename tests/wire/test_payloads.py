"""Orders between versions that know job payloads and older versions that do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import RecordError
from catena.core.frozen import replace
from catena.core.job import ActionKind, ChainManifest, JobSpec, Payload
from catena.core.payloads import OlderAgentError, chain_of, of_chain
from catena.master.jobs.sender import OrderPacker
from catena.minion.jobs.folder import unpacked_order
from catena.minion.jobs.store import JobStore
from catena.transport import wire
from catena.transport.messages import JobOrder
from catena.transport.messages.session import AGENT_WIRE, PAYLOADS

RECORDED = Path(__file__).parents[1] / "cases" / "wire" / "wire3.jsonl"
#: What agents of wire number 3 and masters of their time sent and kept, by the job's name.
ORDERS: dict[str, dict[str, Any]] = {
    row.pop("name"): {key: bytes.fromhex(data) for key, data in row.items()}
    for row in map(json.loads, RECORDED.read_text("ascii").splitlines())
}
LIMIT = wire.LIMITS["control", "minion"]
SENT_AT = 1500.25


def order_of(frame: bytes) -> JobOrder:
    message: JobOrder = wire.unpack(frame, socket="control", receiver="minion").message
    return message


def fields(order: bytes) -> dict[str, Any]:
    """Return the job's fields of a packed order, as they travel."""
    found: dict[str, Any] = wire.unpack_body(order, LIMIT)["spec"]
    return found


@pytest.mark.parametrize("name", ["start", "start with resume"])
def test_chain_of_an_older_master_arrives_as_a_payload(name: str) -> None:
    order = order_of(ORDERS[name]["frame"])
    assert order.now == SENT_AT
    payload = order.spec.payload
    assert payload is not None
    assert (payload.kind, payload.number, payload.epoch) == ("chain", 131, 2)
    chain = chain_of(order.spec)
    assert chain is not None
    assert chain.machine_id == "mach1"
    assert chain.local_resume_seconds == (600 if name == "start with resume" else None)
    assert [one.number for one in chain.chunks] == [1, 2]
    assert chain.chunks[0].actions[1].kind is ActionKind.reboot


def test_plain_order_of_an_older_master_arrives_without_a_payload() -> None:
    spec = order_of(ORDERS["ping"]["frame"]).spec
    assert spec.payload is None
    assert (spec.fun, spec.args, spec.kwargs, spec.user) == (
        "test.ping",
        ("x", 1),
        {"k": None},
        "bob",
    )


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("agent_wire", range(1, PAYLOADS))
def test_older_agent_gets_the_fields_that_it_knows(name: str, agent_wire: int) -> None:
    recorded = fields(ORDERS[name]["frame"][wire.HEADER_BYTES :])
    sent = OrderPacker(SENT_AT).pack(order_of(ORDERS[name]["frame"]).spec, agent_wire)
    assert wire.unpack_body(sent.body, LIMIT)["now"] == SENT_AT
    # Where a field has its default, it may be left out.
    assert {"chain": None, **fields(bytes(sent.body))} == recorded


def test_current_agent_gets_the_payload_with_its_kind() -> None:
    spec = order_of(ORDERS["start"]["frame"]).spec
    sent = fields(bytes(OrderPacker(SENT_AT).pack(spec, AGENT_WIRE).body))
    assert "chain" not in sent
    assert sent["payload"]["kind"] == "chain"
    frame = wire.pack(OrderPacker(SENT_AT).pack(spec, AGENT_WIRE))
    assert order_of(frame) == JobOrder(spec, SENT_AT)


def test_payload_of_another_kind_is_not_sent_to_an_older_agent() -> None:
    spec = JobSpec("20261122200000000009", "test.ping", payload=Payload("playbook", 4, 1, {}))
    with pytest.raises(OlderAgentError, match="runs no playbook: upgrade it first"):
        OrderPacker(SENT_AT).pack(spec, PAYLOADS - 1)


def test_invalid_manifest_is_refused_naming_its_field() -> None:
    spec = {"jid": "20261122200000000009", "fun": "test.ping", "chain": {"chain_id": "x"}}
    frame = wire.pack(wire.packed_as(JobOrder, wire.pack_body({"spec": spec})))
    with pytest.raises(wire.FieldError, match=r"spec\.payload\.number: expected int, got str"):
        order_of(frame)


@pytest.mark.parametrize("name", ORDERS)
def test_stored_order_of_an_older_agent_is_read(name: str, tmp_path: Path) -> None:
    recorded = ORDERS[name]
    expected = order_of(recorded["frame"]).spec
    assert unpacked_order(recorded["spec"]).spec == expected
    # A power failure left the log alone.
    (tmp_path / "jobs.log").write_bytes(recorded["log"])
    stored, bad = JobStore(tmp_path, "boot1").scan()
    assert [one.spec for one in stored] == [expected]
    assert bad == []


@pytest.mark.parametrize("name", ORDERS)
def test_order_is_stored_so_that_an_older_agent_can_read_it(name: str, tmp_path: Path) -> None:
    spec = order_of(ORDERS[name]["frame"]).spec
    JobStore(tmp_path, "boot1").add(spec)
    kept = (tmp_path / "jobs" / spec.jid / "spec").read_bytes()
    assert {"chain": None, **fields(kept)} == fields(ORDERS[name]["spec"])


def test_payload_whose_body_is_another_chain_is_refused() -> None:
    payload = of_chain(ChainManifest(131, "mach1", 2, ()))
    spec = JobSpec("20261122200000000009", "mgractionchains.start", payload=payload)
    assert chain_of(spec) is not None
    other = replace(spec, payload=replace(payload, epoch=3))
    with pytest.raises(
        RecordError, match="of chain 131, epoch 2; the payload is of chain 131, epoch 3"
    ):
        chain_of(other)

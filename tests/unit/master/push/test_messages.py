"""Messages between a visit and its master."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from catena.core.errors import CatenaError, PeerError
from catena.core.job import ChainManifest, JobReturn, JobSpec
from catena.core.payloads import of_chain
from catena.master.push import messages as m

JID = "20261121200000000001"
SPEC = JobSpec(
    JID, "test.ping", ("a", 1), {"b": [True]}, payload=of_chain(ChainManifest(1, "m", 1, ()))
)
RET = JobReturn(JID, "test.ping", (), True, 0, {"x": {1: "y"}}, 1.0, 2.0, epochs={"1": 1})


@pytest.mark.parametrize(
    "message",
    [
        m.VisitOrder({"a": [1]}, "web1", "/etc/catena", {"x": "/y"}, ("/z",), SPEC, "why"),
        m.VisitOrder({}, "web1", "/etc/catena"),
        m.Go(True),
        m.CallOff("enough"),
        m.Kept(),
        m.Phased("run", "1/2"),
        m.HostReport("m1", "b1", "", "10.0.0.1", {"os": "x"}, {"actionchain_id": 5}),
        m.Began(),
        m.Stepped(3, "action", 1.5, {"event": "begin"}),
        m.Returned(RET),
        m.NeverBegan(),
        m.Troubled("away", "connect: no"),
        m.Done(),
    ],
)
def test_message_arrives_unchanged(message: Any) -> None:
    frame = m.pack(message)
    body = frame[m.HEAD_BYTES :]
    assert m.size_of(frame[: m.HEAD_BYTES]) == len(body)
    assert m.unpack(body) == message


@pytest.mark.parametrize(
    "data",
    [
        "text",
        {"kind": "System", "data": {}},
        {"kind": "Go", "data": {"on": "yes"}},
        {"kind": "Go", "data": {}},
        {"kind": "Done", "data": {"more": 1}},
    ],
)
def test_anything_else_is_refused(data: Any) -> None:
    with pytest.raises(CatenaError):
        m.unpack(msgpack.packb(data))


def test_frame_without_end_is_refused() -> None:
    with pytest.raises(PeerError, match="frame of"):
        m.size_of(b"\xff" * m.HEAD_BYTES)

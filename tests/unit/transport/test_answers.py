"""Replies to a client keep their order; small items share a message."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.errors import LimitError
from catena.transport import wire
from catena.transport.answers import TOGETHER_BYTES, ReplyQueue
from catena.transport.framing import FRAME_LIMIT, FrameReader
from catena.transport.messages import ClientItem, ClientItems, ClientReply, Envelope

ONE, OTHER = b"1" * 16, b"2" * 16


def written(answers: ReplyQueue) -> list[Envelope]:
    frames = FrameReader().feed(answers.take())
    return [wire.unpack(raw, socket="local", receiver="client") for raw in frames]


def messages_sent_for(*messages: tuple[Any, bytes]) -> list[tuple[bytes, Any]]:
    answers = ReplyQueue()
    for message, reply_to in messages:
        answers.add(message, reply_to)
    assert answers.size
    found = [(envelope.reply_to, envelope.message) for envelope in written(answers)]
    assert not answers.size
    assert not answers.take()
    return found


def test_items_of_one_request_are_sent_in_one_message() -> None:
    values: list[Any] = [{"type": "return", "value": [1, None, "a"]}, 2, "three"]
    assert messages_sent_for(*((ClientItem(value), ONE) for value in values)) == [
        (ONE, ClientItems(tuple(values)))
    ]


def test_single_item_is_sent_unchanged() -> None:
    assert messages_sent_for((ClientItem({"a": 1}), ONE)) == [(ONE, ClientItem({"a": 1}))]


def test_replies_of_several_requests_are_sent_separately_in_order() -> None:
    messages: list[tuple[Any, bytes]] = [(ClientItem(value), ONE) for value in (1, 2)]
    messages += [(ClientItem(3), OTHER), (ClientReply("end"), ONE), (ClientItem(4), OTHER)]
    assert messages_sent_for(*messages) == [
        (ONE, ClientItems((1, 2))),
        (OTHER, ClientItem(3)),
        (ONE, ClientReply("end")),
        (OTHER, ClientItem(4)),
    ]


def test_large_item_is_sent_alone_and_joined_items_stay_below_the_limit() -> None:
    large = "x" * (TOGETHER_BYTES + 1)
    assert messages_sent_for(
        (ClientItem(1), ONE), (ClientItem(large), ONE), (ClientItem(2), ONE)
    ) == [
        (ONE, ClientItem(1)),
        (ONE, ClientItem(large)),
        (ONE, ClientItem(2)),
    ]
    half = "x" * (TOGETHER_BYTES // 2)
    assert (
        messages_sent_for(*((ClientItem(half), ONE) for _ in range(3)))
        == [(ONE, ClientItem(half))] * 3
    )


def test_item_that_cannot_be_sent_does_not_affect_the_others() -> None:
    answers = ReplyQueue()
    answers.add(ClientItem(1), ONE)
    with pytest.raises(wire.NotPackableError):
        answers.add(ClientItem(object()), ONE)
    with pytest.raises(LimitError):
        answers.add(ClientItem(bytes(FRAME_LIMIT)), ONE)
    answers.add(ClientItem(2), ONE)
    assert [envelope.message for envelope in written(answers)] == [ClientItems((1, 2))]


def test_most_deeply_nested_value_allowed_in_a_return_is_sent() -> None:
    value: Any = 1
    for _ in range(97):
        value = [value]
    item = {"type": "return", "ret": {"value": value}}
    assert messages_sent_for(*[(ClientItem(item), ONE)] * 2) == [(ONE, ClientItems((item, item)))]

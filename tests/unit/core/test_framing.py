"""Frames over a stream that others may write into."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.core.errors import LimitError, PeerError
from catena.core.framing import Framer

NONCE = "ab" * 32
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def pair(limit: int = 1 << 20) -> tuple[Framer, Framer]:
    return Framer(NONCE, master=True, limit=limit), Framer(NONCE, master=False, limit=limit)


@given(
    st.lists(st.tuples(st.dictionaries(st.text(), PLAIN, max_size=3), st.binary()), max_size=4),
    st.integers(1, 40),
)
def test_messages_are_decoded_from_pieces_of_any_size(
    messages: list[tuple[dict[str, object], bytes]], step: int
) -> None:
    master, agent = pair()
    stream = b"".join(master.encode(message, blob) for message, blob in messages)
    found = []
    for at in range(0, len(stream), step):
        found += list(agent.feed(stream[at : at + step]))
    assert found == messages


def test_bytes_between_two_frames_are_an_error() -> None:
    master, agent = pair()
    first, second = master.encode({"a": 1}), master.encode({"a": 2})
    assert list(agent.feed(first)) == [({"a": 1}, b"")]
    with pytest.raises((PeerError, LimitError)):
        list(agent.feed(b"a child wrote this line\n" + second))


@pytest.mark.parametrize("order", [(0, 0), (1,), (0, 2)])
def test_repeated_early_or_missing_frame_is_an_error(order: tuple[int, ...]) -> None:
    master, agent = pair()
    frames = [master.encode({"n": n}) for n in range(3)]
    with pytest.raises(PeerError, match="not in its turn"):
        for number in order:
            list(agent.feed(frames[number]))


def test_own_frame_sent_back_is_an_error() -> None:
    master, _ = pair()
    with pytest.raises(PeerError):
        list(master.feed(master.encode({"a": 1})))


def test_frame_of_another_run_is_an_error() -> None:
    other = Framer("cd" * 32, master=False)
    with pytest.raises(PeerError):
        list(Framer(NONCE, master=True).feed(other.encode({"done": True})))


def test_length_above_the_limit_is_refused_before_the_content_is_read() -> None:
    with pytest.raises(LimitError, match="4000000000"):
        list(Framer(NONCE, master=True).feed(struct.pack(">II16s", 4_000_000_000, 1, b"")))


def test_frame_whose_part_is_longer_than_the_frame_is_refused() -> None:
    with pytest.raises(PeerError, match="larger"):
        list(Framer(NONCE, master=True).feed(struct.pack(">II16s", 1, 2, b"")))


def test_message_above_the_limit_is_not_encoded() -> None:
    with pytest.raises(LimitError):
        pair(limit=10)[0].encode({"a": 1}, b"x" * 20)


@pytest.mark.parametrize("text", [b"[]", b"1", b"{", b"\xff", b"[" * 100_000])
def test_frame_without_a_json_object_is_refused(text: bytes) -> None:
    agent = Framer(NONCE, master=False)
    proof = agent._proof(b"<", 0, len(text), text, b"")
    frame = struct.pack(">II16s", len(text), len(text), proof) + text
    with pytest.raises(PeerError):
        list(Framer(NONCE, master=True).feed(frame))

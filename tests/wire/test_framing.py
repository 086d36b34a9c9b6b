from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.core.errors import LimitError
from catena.transport import framing
from catena.transport.framing import FrameReader, StreamError, frame


@given(st.lists(st.binary(max_size=50), max_size=8), st.integers(1, 60))
def test_frames_arrive_complete_however_the_stream_is_split(
    bodies: list[bytes], step: int
) -> None:
    stream = b"".join(map(frame, bodies))
    reader = FrameReader()
    found: list[bytes] = []
    for at in range(0, len(stream), step):
        found += reader.feed(stream[at : at + step])
    assert found == bodies
    assert reader.pending == 0


@given(st.lists(st.binary(max_size=60), max_size=8), st.integers(1, 60), st.integers(1, 40))
def test_frames_read_into_a_buffer_are_the_same(
    bodies: list[bytes], step: int, large: int
) -> None:
    stream = b"".join(map(frame, bodies))
    reader = FrameReader()
    found: list[framing.Frame] = []
    at = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "LARGE_BYTES", large)
        patch.setattr(framing, "ROOM_BYTES", 16)
        while at < len(stream):
            room = reader.room()
            came = stream[at : at + min(step, len(room))]
            room[: len(came)] = came
            found += reader.took(len(came))
            at += len(came)
    assert found == bodies
    assert reader.pending == 0


def test_truncated_large_frame_is_detected() -> None:
    reader = FrameReader()
    start = frame(bytes(2 * framing.LARGE_BYTES))[:100]
    reader.room()[: len(start)] = start
    assert reader.took(len(start)) == []
    assert len(reader.room()) == 2 * framing.LARGE_BYTES - 96
    assert reader.pending == 96


def test_frame_length_over_the_limit_is_refused_before_its_bytes_arrive() -> None:
    reader = FrameReader(limit=10)
    assert reader.feed(frame(b"0123456789", 10)) == [b"0123456789"]
    with pytest.raises(StreamError, match="11 bytes"):
        reader.feed(b"\0\0\0\x0b")


def test_frame_over_the_limit_is_not_built() -> None:
    with pytest.raises(LimitError):
        frame(b"x" * 11, limit=10)


def test_truncated_stream_is_detected() -> None:
    reader = FrameReader()
    assert reader.feed(frame(b"abc")[:-1]) == []
    assert reader.pending == 6

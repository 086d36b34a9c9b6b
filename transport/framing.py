"""Frames on a byte stream (unix sockets): a 32-bit big-endian length, then the frame (sans-IO)."""

from __future__ import annotations

from typing import List, Optional, Union

from catena.core.errors import LimitError, PeerError

LENGTH_BYTES = 4
#: Largest frame of a local socket: a job's return of DEFAULT_OUTPUT_LIMIT fits with its wrapping.
FRAME_LIMIT = 24 * 1024 * 1024
#: Frames larger than this are read straight into a buffer of their own size.
LARGE_BYTES = 64 * 1024
#: Size of the read buffer for all other frames, in bytes.
ROOM_BYTES = 32 * 1024

Frame = Union[bytes, bytearray]


class StreamError(PeerError):
    """A frame on a local socket announces a length above the limit."""


def frame(data: bytes, limit: int = FRAME_LIMIT) -> bytes:
    """Return *data* with its length prefix.

    Raises:
        LimitError: *data* is longer than *limit*, so the receiver would refuse it.
    """
    return head(len(data), limit) + data


def head(size: int, limit: int = FRAME_LIMIT) -> bytes:
    """Return the length prefix of a frame of *size* bytes.

    Raises:
        LimitError: *size* is above *limit*, so the receiver would refuse the frame.
    """
    if size > limit:
        raise LimitError(f"a message of {size} bytes, a local socket takes {limit}")
    return size.to_bytes(LENGTH_BYTES, "big")


class FrameReader:
    """Splits a byte stream into frames. After a StreamError, close the stream: it is out of step.

    It buffers at most one frame of *limit* bytes plus the data of one `feed`. A caller that reads
    into `room` and reports the count to `took` avoids a copy of each large frame.
    """

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._room = bytearray()
        #: The large frame that is being read, and how many of its bytes have arrived.
        self._large: Optional[bytearray] = None
        self._filled = 0

    def feed(self, data: Union[bytes, memoryview]) -> List[bytes]:
        """Return the frames that *data* completes, oldest first.

        Raises:
            StreamError: a frame announces a length above the limit.
        """
        self._buffer += data
        frames = []
        start = 0
        while len(self._buffer) - start >= LENGTH_BYTES:
            size = int.from_bytes(self._buffer[start : start + LENGTH_BYTES], "big")
            if size > self._limit:
                raise StreamError(f"frame of {size} bytes exceeds the limit of {self._limit}")
            end = start + LENGTH_BYTES + size
            if len(self._buffer) < end:
                break
            with memoryview(self._buffer) as view:
                frames.append(bytes(view[start + LENGTH_BYTES : end]))
            start = end
        del self._buffer[:start]
        return frames

    def room(self) -> memoryview:
        """Return the buffer to read the next bytes into; use either this or `feed`, not both."""
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        if not self._room:
            self._room = bytearray(ROOM_BYTES)
        return memoryview(self._room)

    def took(self, count: int) -> List[Frame]:
        """Return the frames that *count* new bytes in `room` complete; raises like `feed`."""
        if self._large is None:
            frames: List[Frame] = [*self.feed(memoryview(self._room)[:count])]
            self._begin_large()
            return frames
        self._filled += count
        if self._filled < len(self._large):
            return []
        whole, self._large = self._large, None
        return [whole]

    def _begin_large(self) -> None:
        """Move a large frame whose first bytes have arrived into a buffer of its own size."""
        size = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
        if len(self._buffer) < LENGTH_BYTES or size <= LARGE_BYTES:
            return
        self._large = bytearray(size)
        self._filled = len(self._buffer) - LENGTH_BYTES
        self._large[: self._filled] = memoryview(self._buffer)[LENGTH_BYTES:]
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of an incomplete frame; not 0 at the end of a stream that was cut short."""
        return len(self._buffer) + (self._filled if self._large is not None else 0)

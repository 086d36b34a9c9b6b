"""Frames on a byte stream (unix sockets): a 32-bit big-endian length, then the frame (sans-IO)."""

from __future__ import annotations

from typing import List, Optional, Union

from catena.core.errors import LimitError, PeerError

LENGTH_BYTES = 4
#: Largest frame of a local socket: a job's return of DEFAULT_OUTPUT_LIMIT fits with its wrapping.
FRAME_LIMIT = 24 * 1024 * 1024
#: A frame that is larger is read to where it stays.
LARGE_BYTES = 64 * 1024
#: What is read at a time of frames that are not.
ROOM_BYTES = 32 * 1024

Frame = Union[bytes, bytearray]


class StreamError(PeerError):
    """The length of a frame on a local socket is more than the limit."""


def frame(data: bytes, limit: int = FRAME_LIMIT) -> bytes:
    """Return *data* with its length before it.

    Raises:
        LimitError: the reader would refuse it.
    """
    return head(len(data), limit) + data


def head(size: int, limit: int = FRAME_LIMIT) -> bytes:
    """Return what stands before a frame of *size* bytes.

    Raises:
        LimitError: the reader would refuse it.
    """
    if size > limit:
        raise LimitError(f"a message of {size} bytes, a local socket takes {limit}")
    return size.to_bytes(LENGTH_BYTES, "big")


class FrameReader:
    """Cuts a stream into frames. After a StreamError the stream is lost: close it.

    Holds at most one frame of *limit* bytes plus what one feed brought. Who reads to `room`, and
    says by `took` how much came, has large frames copied no more.
    """

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._room = bytearray()
        #: A large frame that is being read, and how much of it came.
        self._large: Optional[bytearray] = None
        self._filled = 0

    def feed(self, data: Union[bytes, memoryview]) -> List[bytes]:
        """Return the frames that *data* completes, oldest first.

        Raises:
            StreamError: a frame says that it is longer than the limit.
        """
        self._buffer += data
        frames = []
        start = 0
        while len(self._buffer) - start >= LENGTH_BYTES:
            size = int.from_bytes(self._buffer[start : start + LENGTH_BYTES], "big")
            if size > self._limit:
                raise StreamError(f"a frame of {size} bytes, the limit is {self._limit}")
            end = start + LENGTH_BYTES + size
            if len(self._buffer) < end:
                break
            with memoryview(self._buffer) as view:
                frames.append(bytes(view[start + LENGTH_BYTES : end]))
            start = end
        del self._buffer[:start]
        return frames

    def room(self) -> memoryview:
        """Return where the next bytes are to be read to; use this or `feed`, not both."""
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        if not self._room:
            self._room = bytearray(ROOM_BYTES)
        return memoryview(self._room)

    def took(self, count: int) -> List[Frame]:
        """Return the frames that the next *count* bytes in `room` complete; raises like `feed`."""
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
        """Give a large frame that has begun a place of its own."""
        size = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
        if len(self._buffer) < LENGTH_BYTES or size <= LARGE_BYTES:
            return
        self._large = bytearray(size)
        self._filled = len(self._buffer) - LENGTH_BYTES
        self._large[: self._filled] = memoryview(self._buffer)[LENGTH_BYTES:]
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not complete; not 0 at the end of a stream: it was cut."""
        return len(self._buffer) + (self._filled if self._large is not None else 0)

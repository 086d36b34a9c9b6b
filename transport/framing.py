"""Frames on a byte stream (unix sockets): a 32-bit big-endian length, then the frame (sans-IO)."""

from __future__ import annotations

from typing import List

from catena.core.errors import LimitError, PeerError

LENGTH_BYTES = 4
#: Largest frame of a local socket: a job's return of DEFAULT_OUTPUT_LIMIT fits with its wrapping.
FRAME_LIMIT = 24 * 1024 * 1024


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

    Holds at most one frame of *limit* bytes plus what one feed brought.
    """

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> List[bytes]:
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

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not complete; not 0 at the end of a stream: it was cut."""
        return len(self._buffer)

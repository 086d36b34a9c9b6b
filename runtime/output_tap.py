"""A command's output, split into chunks that are sent while the command runs."""

from __future__ import annotations

import codecs
import time
from typing import Callable, Dict, List, Protocol, Tuple

from catena.core.frozen import dataclass

#: A command that ends within this many seconds sends nothing, because its return has everything.
QUIET_SECONDS = 1.0
#: Seconds between two sends.
FLUSH_SECONDS = 0.5
#: Maximum bytes of one chunk.
PART_BYTES = 16 * 1024
#: Maximum bytes held for the next send; output beyond them becomes a gap.
HELD_BYTES = 64 * 1024


class Send(Protocol):
    """Sends one chunk of a job's output. Must not block for long and must not raise."""

    def __call__(self, at: int, size: int, stream: str, text: str) -> bool:
        """Send *text*, the *size* bytes after the first *at* bytes of the job's output.

        Returns:
            False if the agent is unreachable; the chunk is sent again later.
        """


@dataclass
class Meter:
    """Counts the bytes that the commands of a job have printed."""

    at: int = 0


@dataclass
class _Held:
    at: int
    stream: str
    data: bytes


class CommandTap:
    """Follows the output of one command.

    Args:
        meter: of the job.
        send: see Send.
        encoding: of the output.
        now: monotonic seconds.
    """

    def __init__(
        self,
        meter: Meter,
        send: Send,
        encoding: str = "utf-8",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._meter, self._send, self._now = meter, send, now
        self._first = meter.at
        self._due = now() + QUIET_SECONDS
        self._streams = False
        self._held: List[_Held] = []
        #: Decoded chunks, as arguments of Send, that could not be sent.
        self._unsent: List[Tuple[int, int, str, str]] = []
        #: Bytes that are held or not sent.
        self._size = 0
        make = codecs.getincrementaldecoder(encoding)
        self._decoders: Dict[str, codecs.IncrementalDecoder] = {
            name: make(errors="replace") for name in ("stdout", "stderr")
        }

    def take(self, stream: str, data: bytes) -> None:
        """Accept bytes that the command has written to *stream*."""
        at = self._meter.at
        self._meter.at += len(data)
        kept = data[: HELD_BYTES - self._size]
        self._size += len(kept)
        last = self._held[-1] if self._held else None
        if last is not None and last.stream == stream and last.at + len(last.data) == at:
            last.data += kept
        elif kept:
            self._held.append(_Held(at, stream, kept))
        self.tick()

    def tick(self) -> None:
        """Send what is held, if it is time."""
        if self._now() >= self._due:
            self._flush()

    def close(self) -> None:
        """Send the rest, unless nothing of this command was sent before."""
        if self._streams:
            self._flush()
        else:
            # The output of a short command is no gap: the return contains it.
            self._meter.at = self._first

    def _flush(self) -> None:
        self._due = self._now() + FLUSH_SECONDS
        held, self._held = self._held, []
        for item in held:
            self._streams = True
            for start in range(0, len(item.data), PART_BYTES):
                piece = item.data[start : start + PART_BYTES]
                text = self._decoders[item.stream].decode(piece)
                self._unsent.append((item.at + start, len(piece), item.stream, text))
        while self._unsent and self._send(*self._unsent[0]):
            self._size -= self._unsent.pop(0)[1]

"""Collects the parts of large returns, which minions send on the bulk socket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from catena.core.errors import LimitError
from catena.core.ids import jid as checked_jid
from catena.transport.messages import ReturnPart
from catena.transport.wire import CHUNK_BYTES

#: Seconds without a new part after which an incomplete return is dropped; the minion resends it.
IDLE_SECONDS = 300.0
#: Maximum number of incomplete returns of one minion; even empty parts need memory.
OPEN_LIMIT = 64
#: Length of a SHA-256 digest in hexadecimal digits.
SHA256_HEX = 64


@dataclass(slots=True)
class _IncompleteReturn:
    sha256: str
    #: Number of parts of the whole return.
    count: int
    #: Time of the last part, seconds on the monotonic clock.
    touched: float
    #: Received parts by index.
    parts: dict[int, ReturnPart] = field(default_factory=dict)
    #: Bytes of the received parts.
    size: int = 0


class PartBuffer:
    """Collects parts of returns, within limits for each minion.

    Args:
        limit_bytes: maximum size of a return, and of all incomplete returns of one minion.
        monotonic: monotonic clock, seconds.
    """

    def __init__(self, limit_bytes: int, monotonic: Callable[[], float]) -> None:
        self._limit = limit_bytes
        self._now = monotonic
        #: Incomplete returns by minion and jid.
        self._returns: dict[tuple[str, str], _IncompleteReturn] = {}
        #: Bytes of received parts, by minion.
        self._sizes: dict[str, int] = {}
        #: Number of incomplete returns, by minion.
        self._open: Counter[str] = Counter()

    def add(self, minion: str, part: ReturnPart) -> list[ReturnPart] | None:
        """Add a part; return all parts of its return if it was the last missing one, else None.

        Raises:
            LimitError: the return, or all incomplete returns of the minion, exceed a limit.
            BadNameError: the jid is invalid.
        """
        key = (minion, checked_jid(part.jid))
        if part.count > self._limit // CHUNK_BYTES + 1 or not 0 <= part.index < part.count:
            self._drop(key)
            raise LimitError(f"a return of more than {self._limit} bytes")
        if len(part.sha256) != SHA256_HEX:
            raise LimitError(f"a sha256 of {len(part.sha256)} characters instead of {SHA256_HEX}")
        found = self._returns.get(key)
        if found is None or (found.sha256, found.count) != (part.sha256, part.count):
            # The job has returned again, or was split differently; only the newest return counts.
            self._drop(key)
            if self._open[minion] >= OPEN_LIMIT:
                raise LimitError(f"more than {OPEN_LIMIT} unfinished returns")
            self._open[minion] += 1
            found = self._returns[key] = _IncompleteReturn(part.sha256, part.count, self._now())
        found.touched = self._now()
        if part.index not in found.parts:
            size = self._sizes.get(minion, 0) + len(part.data)
            if size > self._limit:
                self._drop(key)
                raise LimitError(f"more than {self._limit} bytes of unfinished returns")
            self._sizes[minion] = size
            found.size += len(part.data)
            found.parts[part.index] = part
        if len(found.parts) < found.count:
            return None
        self._drop(key)
        return list(found.parts.values())

    def drop_idle(self) -> None:
        """Drop incomplete returns that got no new part for IDLE_SECONDS."""
        old = self._now() - IDLE_SECONDS
        for key in [key for key, found in self._returns.items() if found.touched < old]:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        found = self._returns.pop(key, None)
        if found is None:
            return
        minion = key[0]
        self._open[minion] -= 1
        if self._open[minion] <= 0:
            del self._open[minion]
        left = self._sizes.get(minion, 0) - found.size
        if left > 0:
            self._sizes[minion] = left
        else:
            self._sizes.pop(minion, None)

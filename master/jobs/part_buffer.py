"""Pieces of large returns on the bulk socket, until they are whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from catena.core.errors import LimitError
from catena.core.ids import jid as checked_jid
from catena.transport.messages import ReturnPart
from catena.transport.wire import CHUNK_BYTES

#: A return whose pieces stop coming for this long is dropped; the minion sends it again.
PATIENCE_SECONDS = 300.0
#: Returns that one minion may have unfinished, however small: an empty piece costs memory too.
OPEN_LIMIT = 64
SHA256_HEX = 64


@dataclass(slots=True)
class _Partial:
    sha256: str
    count: int
    touched: float
    parts: dict[int, ReturnPart] = field(default_factory=dict)
    size: int = 0


class PartBuffer:
    """Collects pieces within a budget per minion.

    Args:
        limit_bytes: largest return, and all that one minion may have unfinished.
        monotonic: seconds since boot.
    """

    def __init__(self, limit_bytes: int, monotonic: Callable[[], float]) -> None:
        self._limit = limit_bytes
        self._now = monotonic
        self._partials: dict[tuple[str, str], _Partial] = {}
        self._spent: dict[str, int] = {}
        self._open: Counter[str] = Counter()

    def add(self, minion: str, part: ReturnPart) -> list[ReturnPart] | None:
        """Keep a piece; return all pieces once they are there.

        Raises:
            LimitError: the return, or what this minion has unfinished, is over the limit.
            BadNameError: the jid is none.
        """
        key = (minion, checked_jid(part.jid))
        if part.count > self._limit // CHUNK_BYTES + 1 or not 0 <= part.index < part.count:
            self._drop(key)
            raise LimitError(f"a return of more than {self._limit} bytes")
        if len(part.sha256) != SHA256_HEX:
            raise LimitError("sha256 has 64 hex digits")
        partial = self._partials.get(key)
        if partial is None or (partial.sha256, partial.count) != (part.sha256, part.count):
            # The minion ended the job anew, or cut it otherwise: only the newest counts.
            self._drop(key)
            if self._open[minion] >= OPEN_LIMIT:
                raise LimitError(f"more than {OPEN_LIMIT} unfinished returns")
            self._open[minion] += 1
            partial = self._partials[key] = _Partial(part.sha256, part.count, self._now())
        partial.touched = self._now()
        if part.index not in partial.parts:
            spent = self._spent.get(minion, 0) + len(part.data)
            if spent > self._limit:
                self._drop(key)
                raise LimitError(f"more than {self._limit} bytes of unfinished returns")
            self._spent[minion] = spent
            partial.size += len(part.data)
            partial.parts[part.index] = part
        if len(partial.parts) < partial.count:
            return None
        self._drop(key)
        return list(partial.parts.values())

    def sweep(self) -> None:
        """Drop what stopped coming."""
        old = self._now() - PATIENCE_SECONDS
        for key in [key for key, partial in self._partials.items() if partial.touched < old]:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        partial = self._partials.pop(key, None)
        if partial is None:
            return
        self._open[key[0]] -= 1
        if self._open[key[0]] <= 0:
            del self._open[key[0]]
        left = self._spent.get(key[0], 0) - partial.size
        if left > 0:
            self._spent[key[0]] = left
        else:
            self._spent.pop(key[0], None)

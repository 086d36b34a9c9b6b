"""Output of running jobs on its way to the master: limited, and resent until it is stored.

The jobs' returns do not depend on it. Output above a limit is dropped; the position of the next
chunk tells the master how much is missing.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Callable, Deque, Optional

from catena.core.frozen import dataclass
from catena.transport.messages import JobOutput, OutputStored, Welcome

#: Maximum bytes of this minion's output that the master has not stored.
WAITING_BYTES = 256 * 1024
#: Overhead of a chunk in bytes, counted in addition to its text.
_CHUNK_COST = 128
#: Seconds until a full link is tried again.
_FULL_SECONDS = 0.1


@dataclass
class _Part:
    message: JobOutput
    cost: int
    sent: bool = False


class OutputSender:
    """Sends chunks in order, at the rate that the master accepts.

    Args:
        send: passes a message to the link; returns False if the link accepts nothing now.
    """

    def __init__(self, send: Callable[[JobOutput], bool]) -> None:
        self._send = send
        self._parts: Deque[_Part] = deque()
        self._waiting = 0
        #: Number of accepted bytes of each open job, with `_CHUNK_COST` for each chunk.
        self._taken: Counter[str] = Counter()
        #: Accepted bytes per second, and below per job; None: there was no master yet.
        self._rate: Optional[int] = None
        self._limit = 0
        self._connected = False
        self._allowance, self._filled = 0.0, 0.0
        self._due: Optional[float] = None

    def connected(self, welcome: Welcome, now: float) -> None:
        """Resend everything on a new connection; drop it if the master accepts no output."""
        rate, self._limit = welcome.output_per_second, welcome.output_limit
        self._rate, self._connected = rate, rate > 0
        self._allowance, self._filled = float(rate), now
        if not self._connected:
            self._parts.clear()
            self._taken.clear()
            self._waiting = 0
        for part in self._parts:
            part.sent = False
        self._due = now if self._parts else None

    def lost(self) -> None:
        """Wait for the next connection."""
        self._connected, self._due = False, None

    def take(self, message: JobOutput, now: float) -> None:
        """Accept a chunk from a job; drop it if it exceeds a limit."""
        if self._rate == 0:
            return
        cost = len(message.text) + _CHUNK_COST
        exceeds = self._rate is not None and self._taken[message.jid] >= self._limit
        if exceeds or self._waiting + cost > WAITING_BYTES:
            return
        self._taken[message.jid] += message.size + _CHUNK_COST
        self._waiting += cost
        self._parts.append(_Part(message, cost))
        if self._connected and self._due is None:
            self._due = now

    def stored(self, message: OutputStored) -> None:
        """Remove the chunks that the master has stored."""
        upto = (message.attempt, message.upto)
        self._keep(
            lambda part: part.jid != message.jid or (part.attempt, part.at + part.size) > upto
        )

    def ended(self, jid: str) -> None:
        """Remove a job whose return the master has stored."""
        if self._taken.pop(jid, None) is not None:
            self._keep(lambda part: part.jid != jid)

    def _keep(self, wanted: Callable[[JobOutput], bool]) -> None:
        self._parts = deque(part for part in self._parts if wanted(part.message))
        self._waiting = sum(part.cost for part in self._parts)

    def service(self, now: float) -> None:
        """Send what is due; *now* is monotonic."""
        if self._due is None or self._rate is None or now < self._due:
            return
        self._allowance += (now - self._filled) * self._rate
        self._allowance = min(self._allowance, float(self._rate))
        self._filled, self._due = now, None
        for part in self._parts:
            if part.sent:
                continue
            if self._allowance <= 0:
                self._due = now + -self._allowance / self._rate + _FULL_SECONDS
                return
            if not self._send(part.message):
                self._due = now + _FULL_SECONDS
                return
            part.sent = True
            self._allowance -= part.cost

    @property
    def waiting_bytes(self) -> int:
        """Return the memory used by chunks that the master has not stored, in bytes."""
        return self._waiting

    def next_due(self) -> Optional[float]:
        """Return when `service` has something to send; None: nothing waits."""
        return self._due

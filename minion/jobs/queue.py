"""Who may run next: state runs one at a time and in order, everything else side by side.

Pure decisions on keys; processes, files and clocks are the daemon's.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from catena.core.chain_calls import RESUME, START
from catena.core.frozen import dataclass
from catena.core.job import JobSpec
from catena.core.marks import QUEUED

#: Jobs that run side by side at most; the next ones wait. Guards the host's memory.
PARALLEL_LIMIT = 32


@dataclass(frozen=True)
class Entry:
    """Something that wants to run."""

    #: jid, or a name of its own for a `catena call`.
    key: str
    #: One at a time.
    serial: bool
    #: Chain that it starts or resumes.
    chain: Optional[int] = None
    #: It goes on with a chain, so it passes those that wait for the chain's end.
    resumes: bool = False


def entry_of(spec: JobSpec) -> Entry:
    """Return a job's place in line."""
    serial = spec.fun in QUEUED and spec.kwargs.get("concurrent") is not True
    chain = spec.chain.chain_id if spec.chain else None
    if chain is None and spec.fun == START and spec.args:
        first = spec.args[0]
        chain = first if isinstance(first, int) else None
    return Entry(spec.jid, serial, chain, spec.fun == RESUME)


def blocker(
    entry: Entry, running: Sequence[Entry], before: Sequence[Entry], pending_chain: Optional[int]
) -> str:
    """Return what a queued job waits for, for people.

    Args:
        entry: the job.
        running: what runs.
        before: what was queued before it.
        pending_chain: see `JobQueue.start`.
    """
    if not entry.serial:
        parallel = sum(1 for other in running if not other.serial)
        if parallel >= PARALLEL_LIMIT:
            return f"{parallel} jobs run, as many as may run at a time"
        return "it begins next"
    busy = [other for other in running if other.serial]
    if busy:
        return f"job {busy[0].key} runs, and state runs follow each other"
    if _held(entry, pending_chain):
        return f"chain {pending_chain} goes on first"
    first = [other for other in before if other.serial and not _held(other, pending_chain)]
    return f"job {first[0].key} is before it" if first else "it begins next"


class JobQueue:
    """The line of one minion."""

    def __init__(self, parallel_limit: int = PARALLEL_LIMIT) -> None:
        self._limit = parallel_limit
        self._waiting: List[Entry] = []
        self._running: Dict[str, Entry] = {}

    def add(self, entry: Entry) -> None:
        """Put *entry* at the end of the line."""
        self._waiting.append(entry)

    def put_back(self, entry: Entry) -> None:
        """Put *entry*, which had begun, at the head of the line: nobody comes in between."""
        self._waiting.insert(0, entry)

    def attach(self, entry: Entry) -> None:
        """Take up something that runs already (after a restart of the daemon)."""
        self._running[entry.key] = entry

    def drop(self, key: str) -> bool:
        """Take *key* out of the line, or note its end; False when it is not here."""
        waiting = len(self._waiting)
        self._waiting = [entry for entry in self._waiting if entry.key != key]
        return self._running.pop(key, None) is not None or len(self._waiting) < waiting

    def is_waiting(self, key: str) -> bool:
        """Return whether *key* has not started."""
        return any(entry.key == key for entry in self._waiting)

    def running(self) -> List[str]:
        """Return what runs, in the order of starts."""
        return list(self._running)

    def waiting(self) -> List[str]:
        """Return what waits, in order."""
        return [entry.key for entry in self._waiting]

    @property
    def serial_running(self) -> bool:
        """Whether one of those runs that run one at a time."""
        return any(entry.serial for entry in self._running.values())

    @property
    def has_serial(self) -> bool:
        """Whether one of those runs, or waits."""
        return self.serial_running or any(entry.serial for entry in self._waiting)

    def position(self, key: str) -> int:
        """Return how many come before *key*; 0 when it runs, is next, or is unknown."""
        mine = next((entry for entry in self._waiting if entry.key == key), None)
        if mine is None:
            return 0
        ahead = [entry for entry in self._running.values() if entry.serial]
        if not mine.serial:
            ahead = [entry for entry in self._running.values() if not entry.serial]
            free = self._limit - len(ahead)
            before = [e for e in self._before(key) if not e.serial]
            return max(0, len(before) + 1 - free)
        return len(ahead) + sum(1 for entry in self._before(key) if entry.serial)

    def start(self, pending_chain: Optional[int] = None) -> List[str]:
        """Move everything that may start now to the running ones and return it.

        Args:
            pending_chain: a chain that waits on this host for its next boot or resume. The start
                of another chain is held back behind it; resuming goes first.
        """
        chosen = self._chosen(self._waiting, pending_chain)
        for entry in chosen:
            self._waiting.remove(entry)
            self._running[entry.key] = entry
        return [entry.key for entry in chosen]

    def starts(self, entry: Entry, pending_chain: Optional[int] = None) -> bool:
        """Return whether *entry* would start now, were it added; as `start` decides."""
        return entry in self._chosen([*self._waiting, entry], pending_chain)

    def _chosen(self, waiting: List[Entry], pending_chain: Optional[int]) -> List[Entry]:
        if not waiting:
            return []
        serial_free = not self.serial_running
        parallel = sum(1 for entry in self._running.values() if not entry.serial)
        chosen: List[Entry] = []
        for entry in sorted(waiting, key=lambda item: not item.resumes):
            if entry.serial:
                if not serial_free or _held(entry, pending_chain):
                    continue
                serial_free = False
            elif parallel >= self._limit:
                continue
            else:
                parallel += 1
            chosen.append(entry)
        return chosen

    def _before(self, key: str) -> List[Entry]:
        keys = [entry.key for entry in self._waiting]
        return self._waiting[: keys.index(key)]


def _held(entry: Entry, pending_chain: Optional[int]) -> bool:
    if pending_chain is None or entry.chain is None or entry.resumes:
        return False
    return entry.chain != pending_chain

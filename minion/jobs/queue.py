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
class Work:
    """A piece of resumable work of which jobs run a part each, such as a chain."""

    #: What sort of work it is; "chain" is the first.
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


@dataclass(frozen=True)
class Entry:
    """Something that wants to run."""

    #: jid, or a name of its own for a `catena call`.
    key: str
    #: One at a time.
    serial: bool
    #: Work that it starts or resumes.
    work: Optional[Work] = None
    #: It goes on with begun work, so it passes the jobs that wait for the end of that work.
    resumes: bool = False


def entry_of(spec: JobSpec) -> Entry:
    """Return a job's place in line."""
    serial = spec.fun in QUEUED and spec.kwargs.get("concurrent") is not True
    chain = spec.chain.chain_id if spec.chain else None
    if chain is None and spec.fun == START and spec.args:
        first = spec.args[0]
        chain = first if isinstance(first, int) else None
    work = None if chain is None else Work("chain", chain)
    return Entry(spec.jid, serial, work, spec.fun == RESUME)


def blocker(
    entry: Entry, running: Sequence[Entry], before: Sequence[Entry], held_by: Optional[Work]
) -> str:
    """Return what a queued job waits for, for people.

    Args:
        entry: the job.
        running: what runs.
        before: what was queued before it.
        held_by: see `JobQueue.start`.
    """
    if not entry.serial:
        parallel = sum(1 for other in running if not other.serial)
        if parallel >= PARALLEL_LIMIT:
            return f"{parallel} jobs run, as many as may run at a time"
        return "it begins next"
    busy = [other for other in running if other.serial]
    if busy:
        return f"job {busy[0].key} runs, and state runs follow each other"
    if _held(entry, held_by):
        return f"{held_by} goes on first"
    first = [other for other in before if other.serial and not _held(other, held_by)]
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

    def position(self, key: str, held_by: Optional[Work] = None) -> int:
        """Return how many come before *key*; 0 when it runs, is next, or is unknown.

        Args:
            key: the entry.
            held_by: work that waits on this host, as for `start`; it counts where it holds *key*.
        """
        mine = self._find(key)
        if mine is None:
            return 0
        return self._ahead(mine) + _held(mine, held_by)

    def behind(self, key: str, held_by: Optional[Work] = None) -> str:
        """Return what *key* waits for, in words; "" when it runs, is next, or is unknown.

        Args:
            key: the entry.
            held_by: as for `position`.
        """
        mine = self._find(key)
        if mine is None or not self.position(key, held_by):
            return ""
        return blocker(mine, list(self._running.values()), self._before(key), held_by)

    def _find(self, key: str) -> Optional[Entry]:
        return next((entry for entry in self._waiting if entry.key == key), None)

    def _ahead(self, mine: Entry) -> int:
        key = mine.key
        ahead = [entry for entry in self._running.values() if entry.serial]
        if not mine.serial:
            ahead = [entry for entry in self._running.values() if not entry.serial]
            free = self._limit - len(ahead)
            before = [e for e in self._before(key) if not e.serial]
            return max(0, len(before) + 1 - free)
        return len(ahead) + sum(1 for entry in self._before(key) if entry.serial)

    def start(self, held_by: Optional[Work] = None) -> List[str]:
        """Move everything that may start now to the running ones and return it.

        Args:
            held_by: work that waits on this host, as a chain for its next boot. The start of
                other work is held back until it has ended; resuming goes first.
        """
        chosen = self._chosen(self._waiting, held_by)
        for entry in chosen:
            self._waiting.remove(entry)
            self._running[entry.key] = entry
        return [entry.key for entry in chosen]

    def starts(self, entry: Entry, held_by: Optional[Work] = None) -> bool:
        """Return whether *entry* would start now, were it added; as `start` decides."""
        return entry in self._chosen([*self._waiting, entry], held_by)

    def _chosen(self, waiting: List[Entry], held_by: Optional[Work]) -> List[Entry]:
        if not waiting:
            return []
        serial_free = not self.serial_running
        parallel = sum(1 for entry in self._running.values() if not entry.serial)
        chosen: List[Entry] = []
        for entry in sorted(waiting, key=lambda item: not item.resumes):
            if entry.serial:
                if not serial_free or _held(entry, held_by):
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


def _held(entry: Entry, held_by: Optional[Work]) -> bool:
    if held_by is None or entry.work is None or entry.resumes:
        return False
    return entry.work != held_by

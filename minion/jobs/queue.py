"""The queue of jobs: state runs one at a time and in order, everything else in parallel.

It only decides on keys; the daemon handles processes, files and clocks.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from catena.core.chain_calls import RESUME, START
from catena.core.frozen import dataclass
from catena.core.job import CHAIN, JobSpec
from catena.core.marks import QUEUED

#: Maximum number of parallel jobs, to protect the host's memory; further ones are queued.
PARALLEL_LIMIT = 32


@dataclass(frozen=True)
class Work:
    """A piece of resumable work, such as a chain; each of its jobs runs a part of it."""

    #: Kind of the payloads of its jobs.
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


@dataclass(frozen=True)
class QueueEntry:
    """An entry of the queue."""

    #: jid, or a unique name for a `catena call`.
    key: str
    #: Whether it runs one at a time with other serial entries.
    serial: bool
    #: Work that it starts or resumes.
    work: Optional[Work] = None
    #: It continues begun work, so it passes jobs that wait for the end of that work.
    resumes: bool = False


def entry_of(spec: JobSpec) -> QueueEntry:
    """Return the queue entry of a job."""
    serial = spec.fun in QUEUED and spec.kwargs.get("concurrent") is not True
    return QueueEntry(spec.jid, serial, _work_of(spec), spec.fun == RESUME)


def _work_of(spec: JobSpec) -> Optional[Work]:
    if spec.payload is not None:
        return Work(spec.payload.kind, spec.payload.number)
    # A user starts a chain directly, from files on the file server.
    if spec.fun == START and spec.args and isinstance(spec.args[0], int):
        return Work(CHAIN, spec.args[0])
    return None


def blocker(
    entry: QueueEntry,
    running: Sequence[QueueEntry],
    before: Sequence[QueueEntry],
    held_by: Optional[Work],
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
            return f"{parallel} jobs are running, which is the maximum"
        return "it begins next"
    busy = [other for other in running if other.serial]
    if busy:
        return f"job {busy[0].key} is running, and state runs are serial"
    if _held(entry, held_by):
        return f"{held_by} continues first"
    first = [other for other in before if other.serial and not _held(other, held_by)]
    return f"job {first[0].key} is ahead of it" if first else "it begins next"


class JobQueue:
    """The job queue of one minion."""

    def __init__(self, parallel_limit: int = PARALLEL_LIMIT) -> None:
        self._limit = parallel_limit
        self._waiting: List[QueueEntry] = []
        self._running: Dict[str, QueueEntry] = {}
        #: Work of ended jobs whose returns are not durable yet.
        self._unsaved: Dict[str, Work] = {}

    def add(self, entry: QueueEntry) -> None:
        """Append *entry* to the queue."""
        self._waiting.append(entry)

    def put_back(self, entry: QueueEntry) -> None:
        """Put *entry*, which had begun, at the head of the queue, so that none passes it."""
        self._waiting.insert(0, entry)

    def attach(self, entry: QueueEntry) -> None:
        """Add an entry that is already running (after a restart of the daemon)."""
        self._running[entry.key] = entry

    def hold_others(self, entry: QueueEntry) -> None:
        """Hold back starts of other work than that of *entry*, until `drop` removes its key.

        Its job has ended, but what it reported of its work is not durable yet.
        """
        if entry.work is not None:
            self._unsaved[entry.key] = entry.work

    def drop(self, key: str) -> bool:
        """Remove *key*, queued, running or held; return False if it is unknown."""
        waiting = len(self._waiting)
        self._waiting = [entry for entry in self._waiting if entry.key != key]
        held = self._unsaved.pop(key, None) is not None
        return self._running.pop(key, None) is not None or held or len(self._waiting) < waiting

    def is_waiting(self, key: str) -> bool:
        """Return whether *key* is queued."""
        return any(entry.key == key for entry in self._waiting)

    def running(self) -> List[str]:
        """Return the running keys in the order of their starts."""
        return list(self._running)

    def waiting(self) -> List[str]:
        """Return the queued keys in order."""
        return [entry.key for entry in self._waiting]

    @property
    def serial_running(self) -> bool:
        """Return whether a serial entry is running."""
        return any(entry.serial for entry in self._running.values())

    @property
    def has_serial(self) -> bool:
        """Return whether a serial entry is running or queued."""
        return self.serial_running or any(entry.serial for entry in self._waiting)

    def position(self, key: str, held_by: Optional[Work] = None) -> int:
        """Return how many entries are ahead of *key*; 0 if it is running, next, or unknown.

        Args:
            key: the entry.
            held_by: work that waits on this host, as for `start`; it counts if it holds *key*
                back.
        """
        mine = self._find(key)
        if mine is None:
            return 0
        return self._ahead(mine) + (self._holder(mine, held_by) is not None)

    def behind(self, key: str, held_by: Optional[Work] = None) -> str:
        """Return a description of what *key* waits for; "" if it is running, next, or unknown.

        Args:
            key: the entry.
            held_by: as for `position`.
        """
        mine = self._find(key)
        if mine is None or not self.position(key, held_by):
            return ""
        holder = self._holder(mine, held_by)
        return blocker(mine, list(self._running.values()), self._before(key), holder)

    def _holder(self, entry: QueueEntry, held_by: Optional[Work]) -> Optional[Work]:
        """Return the work for which *entry* has to wait, or None."""
        works = (held_by, *self._unsaved.values())
        return next((work for work in works if _held(entry, work)), None)

    def _find(self, key: str) -> Optional[QueueEntry]:
        return next((entry for entry in self._waiting if entry.key == key), None)

    def _ahead(self, mine: QueueEntry) -> int:
        key = mine.key
        ahead = [entry for entry in self._running.values() if entry.serial]
        if not mine.serial:
            ahead = [entry for entry in self._running.values() if not entry.serial]
            free = self._limit - len(ahead)
            before = [e for e in self._before(key) if not e.serial]
            return max(0, len(before) + 1 - free)
        return len(ahead) + sum(1 for entry in self._before(key) if entry.serial)

    def start(self, held_by: Optional[Work] = None) -> List[str]:
        """Start all entries that may start now, and return their keys.

        Args:
            held_by: work that waits on this host, such as a chain for its next boot. Starts of
                other work wait until it has ended; resuming it comes first.
        """
        chosen = self._chosen(self._waiting, held_by)
        for entry in chosen:
            self._waiting.remove(entry)
            self._running[entry.key] = entry
        return [entry.key for entry in chosen]

    def starts(self, entry: QueueEntry, held_by: Optional[Work] = None) -> bool:
        """Return whether `start` would start *entry* at once if it were added."""
        return entry in self._chosen([*self._waiting, entry], held_by)

    def _chosen(self, waiting: List[QueueEntry], held_by: Optional[Work]) -> List[QueueEntry]:
        if not waiting:
            return []
        serial_free = not self.serial_running
        parallel = sum(1 for entry in self._running.values() if not entry.serial)
        chosen: List[QueueEntry] = []
        for entry in sorted(waiting, key=lambda item: not item.resumes):
            if entry.serial:
                if not serial_free or self._holder(entry, held_by) is not None:
                    continue
                serial_free = False
            elif parallel >= self._limit:
                continue
            else:
                parallel += 1
            chosen.append(entry)
        return chosen

    def _before(self, key: str) -> List[QueueEntry]:
        keys = [entry.key for entry in self._waiting]
        return self._waiting[: keys.index(key)]


def _held(entry: QueueEntry, held_by: Optional[Work]) -> bool:
    if held_by is None or entry.work is None or entry.resumes:
        return False
    return entry.work != held_by

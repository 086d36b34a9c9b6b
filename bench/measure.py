"""Wall time, CPU seconds and memory of commands and process trees."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.account import Account
from bench.errors import BenchError

#: Environment variable that marks the processes of one fixture.
MARK = "CATENA_BENCH"
#: Maximum seconds of a single command.
PATIENCE_SECONDS = 300.0
_SHARES = re.compile(r"^(Pss|Private_Clean|Private_Dirty):\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class Ran:
    """The result and cost of a command."""

    wall: float
    #: User and system seconds of the command and of the children for which it waited.
    cpu: float
    code: int
    out: str
    err: str


def run(
    words: Sequence[str | Path],
    env: Mapping[str, str] | None = None,
    patience: float = PATIENCE_SECONDS,
    check: bool = True,
) -> Ran:
    """Run a command to its end; its output goes through files, so that no pipe slows it.

    Raises:
        BenchError: it took too long, or failed and *check* is set.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun = time.monotonic()
        child = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            env=dict(env or os.environ), start_new_session=True,
        )  # fmt: skip
        guard = threading.Timer(patience, _kill_group, (child.pid,))
        guard.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            _kill_group(child.pid)
            child.wait()
            raise
        finally:
            guard.cancel()
        wall = time.monotonic() - begun
        child.returncode = code = os.waitstatus_to_exitcode(status)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    if wall >= patience:
        raise BenchError(f"{Path(words[0]).name} took over {patience:.0f} s")
    if check and code:
        raise BenchError(
            f"{Path(words[0]).name} ended with {code}: {' '.join(texts).strip()[-300:]}"
        )
    return Ran(wall, usage.ru_utime + usage.ru_stime, code, *texts)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


@dataclass(frozen=True)
class Stat:
    """Values of /proc/PID/stat, in the kernel's ticks."""

    pid: int
    parent: int
    #: Ticks of the process itself.
    own: int
    #: Ticks of the descendants that were waited for.
    reaped: int


def parse_stat(text: str) -> Stat:
    """Return the record of one /proc/PID/stat; the name in it may hold spaces and brackets."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    user, system, children_user, children_system = (int(word) for word in fields[11:15])
    pid = int(head.split("(", 1)[0])
    return Stat(pid, int(fields[1]), user + system, children_user + children_system)


def tree_of(roots: Iterable[int], stats: Iterable[Stat]) -> set[int]:
    """Return *roots* and all their descendants."""
    children: dict[int, list[int]] = {}
    known = set()
    for stat in stats:
        children.setdefault(stat.parent, []).append(stat.pid)
        known.add(stat.pid)
    found: set[int] = set()
    waiting = [pid for pid in roots if pid in known]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return found


def ticks_of(pids: set[int], stats: Iterable[Stat]) -> int:
    """Return the ticks that the processes *pids* and their ended children have used.

    A child that ended is in its parent's sum once it was waited for, so that the sum over the
    living counts everything once.
    """
    return sum(stat.own + stat.reaped for stat in stats if stat.pid in pids)


def all_stats() -> list[Stat]:
    """Return a record of every process."""
    return list(_stats())


def _stats() -> Iterator[Stat]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield parse_stat((entry / "stat").read_text())


def sum_of(rollup: str, names: Iterable[str]) -> int:
    """Return the sum of some lines of /proc/PID/smaps_rollup, KiB."""
    wanted = set(names)
    return sum(int(size) for name, size in _SHARES.findall(rollup) if name in wanted)


def memory(pids: Iterable[int], *names: str) -> float:
    """Return the sum of some lines of the processes' smaps_rollup, MB (10⁶ bytes)."""
    kib = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            kib += sum_of(Path(f"/proc/{pid}/smaps_rollup").read_text(), names)
    return kib * 1024 / 1e6


def is_marked(environ: bytes, mark: str) -> bool:
    """Return whether /proc/PID/environ has this mark, or one below it."""
    start = f"{MARK}={mark}".encode()
    return any(
        entry == start or entry.startswith(start + b"/")
        for entry in environ.split(b"\0")
        if entry.startswith(start)
    )


class Tree:
    """The processes of a fixture: those with its mark, and their descendants.

    Args:
        mark: value of the environment variable MARK in the fixture's processes. Marks are paths:
            the tree of "/a" has the processes that are marked "/a" and "/a/b".
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._account = Account(mark)

    def take(self, pid: int) -> None:
        """Count the CPU time of the newly started *pid* and of its children."""
        self._account.take(pid)

    def pids(self) -> set[int]:
        """Return the processes that are alive now."""
        stats = all_stats()
        return tree_of((s.pid for s in stats if self._is_marked(s.pid)), stats)

    def _is_marked(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            return is_marked(Path(f"/proc/{pid}/environ").read_bytes(), self._mark)
        return False

    def cpu(self) -> float:
        """Return the CPU seconds so far.

        Where no group counts them: to the kernel's tick (10 ms), and without children for which
        nobody waited.
        """
        counted = self._account.seconds()
        if counted is not None:
            return counted
        return ticks_of(self.pids(), all_stats()) / os.sysconf("SC_CLK_TCK")

    def exact_cpu(self) -> float:
        """Return the CPU seconds so far, to the nanosecond but for ended children; for idle ones.

        Threads that ended are not in it, unless a group counts.
        """
        counted = self._account.seconds()
        if counted is not None:
            return counted
        pids = self.pids()
        reaped = sum(stat.reaped for stat in all_stats() if stat.pid in pids)
        total = reaped * 10**9 // os.sysconf("SC_CLK_TCK")
        for pid in pids:
            with contextlib.suppress(OSError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    total += int((thread / "schedstat").read_text().split()[0])
        return total / 1e9

    def pss(self) -> float:
        """Return the proportional set size of all processes, MB (10⁶ bytes)."""
        return memory(self.pids(), "Pss")

    def end(self, grace: float = 10.0) -> None:
        """End every process of the tree and wait for their end."""
        deadline = time.monotonic() + grace
        sign = signal.SIGTERM
        while pids := self.pids():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sign)
            if time.monotonic() > deadline:
                sign = signal.SIGKILL
            time.sleep(0.1)
        self._account.close()

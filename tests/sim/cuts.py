"""Build every legal state of a disk after a power failure at each step of a writer.

A writer runs on a fresh disk until one of its steps; then the power goes. What a cut decides
(which changes of folders are kept, how far a file's content came) is asked of an oracle that gives
every answer in turn, so that every state is built once.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.sim.disk import Disk, Tap
from tests.sim.tasks import Killed, Program, Turn

T = TypeVar("T")


class Oracle(random.Random):
    """Gives every sequence of answers, one sequence after the other."""

    def __init__(self) -> None:
        super().__init__(0)
        self._answers: list[tuple[int, int]] = []
        self._asked = 0

    def again(self) -> bool:
        """Begin the next sequence; False: there was the last."""
        self._asked = 0
        while self._answers and self._answers[-1][0] + 1 == self._answers[-1][1]:
            self._answers.pop()
        if not self._answers:
            return False
        index, many = self._answers[-1]
        self._answers[-1] = index + 1, many
        return True

    def _answer(self, many: int) -> int:
        if self._asked == len(self._answers):
            self._answers.append((0, many))
        self._asked += 1
        return self._answers[self._asked - 1][0]

    def choose(self) -> bool:
        """Return whether something is kept."""
        return bool(self._answer(2))

    def choice(self, seq: Any) -> Any:
        """Return one of several."""
        return seq[self._answer(len(seq))]

    def randint(self, a: int, b: int) -> int:
        """Return a number that stands for all between *a* and *b*."""
        some = sorted({a, (a + b) // 2, max(a, b - 1)})
        return some[self._answer(len(some))]


class Bench(Generic[T]):
    """A disk on which a writer is cut.

    Args:
        below: an existing folder.
        prepare: what is there, durably, before the writer begins.
        write: the writer; it may yield after each thing that it has promised to keep.
    """

    def __init__(
        self,
        below: Path,
        prepare: Callable[[Path], None],
        write: Callable[[Path], Iterator[T]],
    ) -> None:
        self._root = below / "bench"
        self._prepare, self._write = prepare, write

    def states(self) -> Iterator[tuple[Path, Sequence[T], bool]]:
        """Yield each state: the folder, what was promised before the cut, was it the end."""
        step = 0
        over = False
        while not over:
            oracle = Oracle()
            while True:
                kept, over = self._cut(step, oracle)
                yield self._root, kept, over
                if not oracle.again():
                    break
            step += 1

    def successions(self) -> Iterator[tuple[Path, Sequence[T]]]:
        """Yield the folder, and what a successor promised, after a power failure at its worst.

        The writer is killed at each of its steps in turn. A second writer then does the same work
        on what the first one left visible, and after it the power fails: nothing survives that
        was not synced.
        """
        step = 0
        over = False
        while not over:
            disk, tap, turn = self._fresh()
            with tap.opened():
                _, over = self._until(turn, step)
                promised, _ = self._until(turn, None)
            disk.cut(random.Random(0), kept=0.0)
            yield self._root, promised
            step += 1

    def _cut(self, step: int, oracle: Oracle) -> tuple[list[T], bool]:
        disk, tap, turn = self._fresh()
        with tap.opened():
            promised, over = self._until(turn, step)
        disk.cut_by(oracle)
        return promised, over

    def _fresh(self) -> tuple[Disk, Tap, Turn]:
        shutil.rmtree(self._root, ignore_errors=True)
        self._root.mkdir(mode=0o700)
        self._prepare(self._root)
        turn = Turn()
        tap, disk = Tap(turn, lambda *_: None), Disk(self._root)
        disk.sync_all()
        tap.watch(disk)
        return disk, tap, turn

    def _until(self, turn: Turn, step: int | None) -> tuple[list[T], bool]:
        """Kill the writer at *step*; return what it promised and whether it ended before."""
        program = Program("writer", None)
        program.steps_left = step

        def strike() -> None:
            program.dead = True

        program.fate = strike
        promised: list[T] = []
        with turn.of(program):
            try:
                for each in self._write(self._root):
                    promised.append(each)
            except Killed:
                return promised, False
        return promised, True

"""Rows of the benchmark: measuring functions per tool, and an aim."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.lab import Lab

#: Measured tools, in the order of the table's columns; "floor" is a lower bound without them.
TOOLS = ("catena", "salt", "ansible", "pyinfra", "floor")


@dataclass(frozen=True)
class Sample:
    """The result of one measurement."""

    #: The value in the row's unit.
    value: float
    #: CPU seconds of all processes involved; None if that is the value itself, or unknown.
    cpu: float | None = None


#: Measures once, with the fixtures of a Lab; raises BenchError when it cannot.
Measure = Callable[[Lab], Sample]


@dataclass(frozen=True)
class Times:
    """The aim is a minimum ratio to another tool in the same run."""

    factor: float
    peer: str = "salt"

    def __str__(self) -> str:
        return f"{self.factor:g}× {self.peer.capitalize()}"


@dataclass(frozen=True)
class Limit:
    """The aim is a limit in the row's unit: a maximum, or a minimum if more is better."""

    figure: float

    def __str__(self) -> str:
        return f"{self.figure:,g}"


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    #: Short and unique, for --rows: "ping-1".
    name: str
    #: What is measured, for readers of the table.
    title: str
    #: "s", "ms", "MB", "KB", "%", "/s", "× median" …
    unit: str
    #: Measuring functions by tool.
    tools: Mapping[str, Measure]
    aim: Times | Limit | None = None
    #: Number of measurements per tool in a full run; the cell shows the median.
    repeats: int = 5
    #: Number of measurements with --quick; 0 omits the row, which the table marks.
    quick: int = 3
    less_is_better: bool = True
    #: By slow tool: its number of measurements in a full run; a quick run omits it.
    fewer: Mapping[str, int] = field(default_factory=dict)
    #: Note below the table about this row.
    note: str = ""

    def rounds(self, tool: str, quick: bool) -> int:
        """Return how often *tool* is measured."""
        if quick:
            return 0 if tool in self.fewer else self.quick
        return self.fewer.get(tool, self.repeats)


@dataclass(frozen=True)
class Cell:
    """The result of a row for one tool."""

    samples: Sequence[Sample] = ()
    #: Reason for a missing figure.
    why: str = ""
    #: Whether the measurement failed, as opposed to a missing tool.
    failed: bool = False

    @property
    def value(self) -> float | None:
        """The median of the values."""
        return statistics.median(s.value for s in self.samples) if self.samples else None

    @property
    def cpu(self) -> float | None:
        """The median of the CPU seconds that were measured."""
        seconds = [s.cpu for s in self.samples if s.cpu is not None]
        return statistics.median(seconds) if seconds else None


@dataclass(frozen=True)
class Outcome:
    """A row and its cells; an omitted row has none."""

    row: Row
    cells: Mapping[str, Cell]

    def figure(self, tool: str) -> float | None:
        """Return the median of *tool*; None without one."""
        cell = self.cells.get(tool)
        return cell.value if cell else None

    def ratio(self, peer: str) -> float | None:
        """Return how many times better catena is than *peer*; None without both figures."""
        ours, theirs = self.figure("catena"), self.figure(peer)
        if ours is None or theirs is None:
            return None
        above, below = (theirs, ours) if self.row.less_is_better else (ours, theirs)
        return above / below if below else float("inf")

    def verdict(self) -> str:
        """Return "met", "missed", "not measured" or "", and who is ahead of catena."""
        ours = self.figure("catena")
        if not self.cells or ours is None:
            return "not measured"
        ahead = [p for p in TOOLS[1:-1] if (ratio := self.ratio(p)) is not None and ratio < 1]
        behind = f"behind {', '.join(ahead)}" if ahead else ""
        return ", ".join(word for word in (self._judged(ours), behind) if word)

    def _judged(self, ours: float) -> str:
        aim = self.row.aim
        if aim is None:
            return ""
        if isinstance(aim, Limit):
            met = ours <= aim.figure if self.row.less_is_better else ours >= aim.figure
            return "met" if met else "missed"
        ratio = self.ratio(aim.peer)
        if ratio is None:
            return "not measured"
        return "met" if ratio >= aim.factor else "missed"

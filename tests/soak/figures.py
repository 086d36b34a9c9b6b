"""Memory and file descriptors of processes over time, and how fast they grow."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """One look at a process."""

    #: Seconds since the start.
    at: float
    pss_kib: int
    descriptors: int


def look(pid: int, at: float) -> Sample | None:
    """Return memory and descriptors of a process; None when it is gone."""
    with contextlib.suppress(OSError):
        pss = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
        count = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        return Sample(at, int(pss[1]) if pss else 0, count)
    return None


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the growth per hour by least squares; 0 for fewer than three points."""
    if len(points) < 3:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if not spread:
        return 0.0
    return 3600.0 * sum((x - mean_x) * (y - mean_y) for x, y in points) / spread

"""Draws boards on a terminal with rich, which only this module imports."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Callable, Iterator, Optional, Type

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from catena.cli.output.board import ACTIVE, DONE, FAILED, WAITING, Board, BoardLine

_STYLES = {FAILED: "bold red", ACTIVE: "yellow", WAITING: "dim", DONE: "green"}
_WORDS = {FAILED: "failed", ACTIVE: "running", WAITING: "waiting", DONE: "done"}
_MARKS = {FAILED: "✗", ACTIVE: "▶", WAITING: "…", DONE: "✓"}
#: Frames per second.
_FRAMES = 4
#: Terminal rows used by the rest of the frame, and maximum rows for failures.
_FIXED_ROWS = 5
_FAILURE_ROWS = 4
#: Terminal width below which the columns of steps and times are omitted.
_NARROW = 60

#: Makes the frame for the given numbers of minions and failures.
Source = Callable[[int, int], Board]


def duration(seconds: float) -> str:
    """Return a duration as text: 9s, 1:05, 2:03:04."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def draw(board: Board, width: int, elapsed: float, now: float) -> Group:
    """Return a frame.

    Args:
        board: the content.
        width: columns of the terminal.
        elapsed: seconds since the view began.
        now: epoch seconds, for the duration of each minion's step.
    """
    head = Text(f"{board.title}  {duration(elapsed)}", style="bold", no_wrap=True)
    head.truncate(width, overflow="ellipsis")
    parts: list[Any] = [head, _progress(board, width), _lines(board, width, now)]
    rest = ", ".join(f"{count} {_WORDS[kind]}" for kind, count in board.hidden.items() if count)
    if rest:
        parts.append(Text(f"  and {rest}", style="dim", no_wrap=True, overflow="ellipsis"))
    parts += [
        Text(text, style="red", no_wrap=True, overflow="ellipsis") for text in board.failures
    ]
    return Group(*parts)


def _progress(board: Board, width: int) -> Table:
    grid = Table.grid(padding=(0, 1))
    counts = Text(no_wrap=True, overflow="ellipsis")
    for kind, count in board.counts.items():
        if count:
            counts.append(f"{count} {_WORDS[kind]}  ", style=_STYLES[kind])
    bar = ProgressBar(total=max(1, board.total), completed=board.done, width=min(30, width // 3))
    grid.add_row(bar, Text(f"{board.done}/{board.total}", no_wrap=True), counts)
    return grid


def _lines(board: Board, width: int, now: float) -> Table:
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True, width=1)
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=max(8, width // 3))
    wide = width >= _NARROW
    if wide:
        grid.add_column(no_wrap=True, justify="right")
        grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for line in board.lines:
        grid.add_row(*_cells(line, wide, now))
    return grid


def _cells(line: BoardLine, wide: bool, now: float) -> list[Text]:
    style = _STYLES[line.kind]
    cells = [Text(_MARKS[line.kind], style=style), Text(line.minion)]
    if wide:
        ticking = line.kind in (ACTIVE, WAITING) and 0 < line.since <= now
        cells.append(Text(f"{line.done}/{line.total}"))
        cells.append(Text(duration(now - line.since) if ticking else "", style="dim"))
    return [*cells, Text(line.text, style=style if line.kind != DONE else "")]


class Screen:
    """A live view on the terminal of stdout within its `with` block; prints appear above it.

    Args:
        source: makes the board of each frame; called from another thread, under `lock`.
        console: the terminal; stdout by default.
    """

    def __init__(self, source: Source, console: Optional[Console] = None) -> None:
        #: Held while a frame is made; hold it also to change what *source* reads.
        self.lock = threading.Lock()
        self._source = source
        self._begun = time.monotonic()
        self._console = console or Console(file=sys.stdout, highlight=False)
        self._live = self._made()

    def _made(self) -> Live:
        return Live(
            get_renderable=self._frame,
            console=self._console,
            refresh_per_second=_FRAMES,
            transient=True,
            vertical_overflow="crop",
        )

    def _frame(self) -> Group:
        width, height = self._console.size
        failures = min(_FAILURE_ROWS, max(0, height // 5))
        with self.lock:
            board = self._source(max(1, height - failures - _FIXED_ROWS), failures)
        return draw(board, width, time.monotonic() - self._begun, time.time())

    @contextmanager
    def still(self) -> Iterator[None]:
        """Remove the view, and leave stdout and stderr unchanged, while the block runs."""
        self._live.stop()
        try:
            yield
        finally:
            self._live = self._made()
            self._live.start()

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._live.stop()

"""Work on many SSH hosts, so many at a time: a live line for each, answers as they come."""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence

from catena.cli.output.live import LiveLines
from catena.cli.output.text import printable
from catena.cli.watch import JobPrinter
from catena.core.errors import CatenaError, UnreachableError
from catena.core.frozen import dataclass
from catena.core.own_code import told

if TYPE_CHECKING:
    from catena.ssh.link import Watch

#: An answer: its value, the output that suits it, its code; and the error that came after it.
Answer = Mapping[str, Any]

#: So many failed hosts are named at the end.
_NAMED = 20


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Task:
    """What to do on one host."""

    host: str
    #: Does it; None: there is no answer to show.
    work: Callable[[Watch], Optional[Answer]]
    #: Called when the answer was printed.
    shown: Callable[[], None] = nothing


class Hosts:
    """The work of one command.

    Args:
        tasks: what to do.
        printer: prints answers.
        interrupted: what to say when the user ends the command.
    """

    def __init__(self, tasks: Sequence[Task], printer: JobPrinter, interrupted: str) -> None:
        self._tasks = tasks
        self._printer = printer
        self._interrupted = interrupted
        self._live = LiveLines()
        self._failed: Dict[str, int] = {}
        self._unreached = False
        self._shown: List[Task] = []

    def run(self, width: int) -> int:
        """Do it on *width* hosts at a time; return the exit code."""
        pool = ThreadPoolExecutor(max_workers=max(1, min(width, len(self._tasks))))
        futures = {pool.submit(self._do, task): task for task in self._tasks}
        try:
            for future in as_completed(futures):
                self._live.hide()
                self._take(futures[future], future)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            self._printer.finish()
            self._forget()
            print(self._interrupted, file=sys.stderr)
            return 130
        pool.shutdown(wait=False)
        self._printer.finish()
        self._forget()
        return self._account()

    def _do(self, task: Task) -> Optional[Answer]:
        def watch(phase: Any, text: str) -> None:
            self._live.say(task.host, f"{phase.value}: {text}" if text else str(phase.value))

        try:
            return task.work(watch)
        finally:
            self._live.end(task.host)

    def _take(self, task: Task, future: Future[Optional[Answer]]) -> None:
        try:
            ret = future.result()
        except Exception as error:  # noqa: BLE001  # one host makes nothing go wrong for others
            self._tell(task.host, error)
            return
        if ret is not None:
            self._show(task, ret)
            if "trouble" in ret:
                self._tell(task.host, ret["trouble"])

    def _tell(self, host: str, error: Exception) -> None:
        if isinstance(error, UnreachableError):
            self._unreached = True
            _say(str(error))
            return
        self._failed[host] = error.exit_code if isinstance(error, CatenaError) else 1
        text = str(error) if isinstance(error, CatenaError) else told(error)
        _say(text if text.startswith(f"{host}: ") else f"{host}: {text}")

    def _show(self, task: Task, ret: Answer) -> None:
        self._printer.show(task.host, ret)
        self._shown.append(task)
        if not self._printer.is_whole:
            self._forget()
        if ret["code"]:
            self._failed[task.host] = ret["code"]

    def _forget(self) -> None:
        """Have what was printed forgotten."""
        sys.stdout.flush()
        shown, self._shown = self._shown, []
        for task in shown:
            task.shown()

    def _account(self) -> int:
        if not self._failed:
            return UnreachableError.exit_code if self._unreached else 0
        failed = [f"{name} (code {code})" for name, code in sorted(self._failed.items())]
        more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        _say(f"failed: {', '.join(failed[:_NAMED])}{more}")
        return CatenaError.exit_code


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)

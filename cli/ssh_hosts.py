"""Work on many SSH hosts, a limited number at a time, with live progress and answers."""

from __future__ import annotations

import contextlib
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import (
    Any,
    Dict,
    Generator,
    List,
    Sequence,
    Tuple,
)

from catena.cli.output.board import failure
from catena.cli.output.text import printable
from catena.cli.ssh_tasks import Answer, Task
from catena.cli.ssh_view import HostView
from catena.cli.ssh_workers import HostError, HostWorkers, Result
from catena.cli.watch import JobPrinter
from catena.core.custom_faults import error_line
from catena.core.errors import CatenaError, UnreachableError

#: Maximum number of failed hosts listed at the end.
_NAMED = 20


class Hosts:
    """The work of one command.

    Args:
        tasks: the work, one task per host.
        printer: prints answers.
        interrupted: message when the user interrupts the command.
        title: what runs on the hosts; first line of a live view.
    """

    def __init__(
        self, tasks: Sequence[Task], printer: JobPrinter, interrupted: str, title: str = ""
    ) -> None:
        self._tasks = tasks
        self._printer = printer
        self._interrupted = interrupted
        self._title = title
        self._failed: Dict[str, int] = {}
        self._unreached = False
        self._shown: List[Task] = []

    def run(self, width: int, renders: bool = False) -> int:
        """Run the tasks on *width* hosts at a time; return the exit code.

        Args:
            width: maximum number of hosts at a time.
            renders: whether tasks compile for their hosts. Each then needs the main thread of a
                process and a core of its own; other tasks share this process.
        """
        view = HostView(self._title, [task.host for task in self._tasks], max(1, width))
        with contextlib.closing(self._results(view, max(1, width), renders)) as results:
            try:
                for task, result in results:
                    view.end(task.host, _failure(task.host, result))
                    self._take(task, result)
            except KeyboardInterrupt:
                results.close()
                self._printer.finish()
                self._close_pages()
                print(self._interrupted, file=sys.stderr)
                return 130
        self._printer.finish()
        self._close_pages()
        return self._report_failed()

    def _results(
        self, view: HostView, width: int, renders: bool
    ) -> Generator[Tuple[Task, Result], None, None]:
        if len(self._tasks) == 1:
            # A short command on one host needs no live view.
            with view.shown() if renders else contextlib.nullcontext():
                yield self._tasks[0], self._do(self._tasks[0], view)
        elif renders:
            with HostWorkers(self._tasks, min(width, len(self._tasks)), view.still) as workers:
                with view.shown():
                    yield from workers.run(view.say)
        else:
            with view.shown():
                yield from self._by_threads(view, width)

    def _by_threads(
        self, view: HostView, width: int
    ) -> Generator[Tuple[Task, Result], None, None]:
        pool = ThreadPoolExecutor(max_workers=min(width, len(self._tasks) or 1))
        futures = {pool.submit(self._do, task, view): task for task in self._tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _do(self, task: Task, view: HostView) -> Result:
        def watch(phase: Any, text: str) -> None:
            view.say(task.host, f"{phase.value}: {text}" if text else str(phase.value))

        try:
            return task.work(watch)
        except Exception as error:  # noqa: BLE001  # other hosts continue
            return error

    def _take(self, task: Task, result: Result) -> None:
        if isinstance(result, Exception):
            self._report(task.host, result)
        elif result is not None:
            self._show(task, result)
            if "trouble" in result:
                self._report(task.host, result["trouble"])

    def _report(self, host: str, error: Exception) -> None:
        """Print the error of a host and remember it for the exit code."""
        if isinstance(error, UnreachableError):
            self._unreached = True
            _print_line(str(error))
            return
        if isinstance(error, HostError):
            self._failed[host] = error.code
        else:
            self._failed[host] = error.exit_code if isinstance(error, CatenaError) else 1
        _print_line(f"{host}: {_why(host, error)}")

    def _show(self, task: Task, ret: Answer) -> None:
        self._printer.show(task.host, ret)
        self._shown.append(task)
        if not self._printer.is_whole:
            self._close_pages()
        if ret["code"]:
            self._failed[task.host] = ret["code"]

    def _close_pages(self) -> None:
        """Delete the ledger pages of the printed answers."""
        sys.stdout.flush()
        shown, self._shown = self._shown, []
        for task in shown:
            task.shown()

    def _report_failed(self) -> int:
        """List the failed hosts on stderr; return the exit code."""
        if not self._failed:
            return UnreachableError.exit_code if self._unreached else 0
        failed = [f"{name} (code {code})" for name, code in sorted(self._failed.items())]
        more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        _print_line(f"failed: {', '.join(failed[:_NAMED])}{more}")
        return CatenaError.exit_code


def _failure(host: str, result: Result) -> str:
    """Return what failed on a host, as one line; "" if nothing did."""
    if isinstance(result, Exception):
        return _why(host, result)
    if result is not None and result["code"]:
        return failure(result["value"])
    return _why(host, result["trouble"]) if result is not None and "trouble" in result else ""


def _why(host: str, error: Exception) -> str:
    """Return the text of an error without a leading host name."""
    text = str(error) if isinstance(error, CatenaError) else error_line(error)
    return text[len(host) + 2 :] if text.startswith(f"{host}: ") else text


def _print_line(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)

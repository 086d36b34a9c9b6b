"""Following one job: what is printed while it runs, and at its end."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Dict, Generator, Iterator, Mapping, NamedTuple, Optional

from catena.cli.output.answers import answer
from catena.cli.output.fetching import FetchLines
from catena.cli.output.printed import PrintedLines
from catena.cli.output.style import FULL, StateStyle
from catena.cli.output.text import printable, wants_colour
from catena.client.follow import JobFollower
from catena.core.errors import TryLaterError, UnreachableError

if TYPE_CHECKING:
    from catena.client.connection import MasterClient
    from catena.client.requests.contract import Ask

#: Outputs that are one document for all minions, printed at the end.
_WHOLE = frozenset({"json", "yaml"})

#: Minimum seconds in which the master has to confirm a job, and then to send what it knows of it.
_CONFIRM_SECONDS = 15.0
_SNAPSHOT_SECONDS = 0.2

#: Maximum number of failed minions listed at the end.
_NAMED = 20


class JobPrinter:
    """Prints the returns of a job as they arrive, or at the end if the output is one document.

    Args:
        out: name of an output; "" uses the one that each return requests.
        style: of state runs.
        static: whether everything is printed at the end, sorted by minion.
    """

    def __init__(self, out: str, style: StateStyle = FULL, static: bool = False) -> None:
        self._out = out
        self._style = style
        self._static = static
        self._kept: Dict[str, Mapping[str, Any]] = {}
        self._values: Dict[str, Any] = {}
        self._colour = wants_colour()

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is printed before the end."""
        return self._static or self._out in _WHOLE

    def show(self, minion: str, ret: Mapping[str, Any]) -> None:
        """Print one return, or hold it back until the end."""
        if self._out in _WHOLE:
            self._values[minion] = ret["value"]
        elif self._static:
            self._kept[minion] = ret
        else:
            self._print(minion, ret)

    def _print(self, minion: str, ret: Mapping[str, Any]) -> None:
        text = answer(minion, ret, self._out, self._colour, self._style)
        if text:
            print(text, flush=True)

    def finish(self) -> None:
        """Print the returns that were held back."""
        for minion, ret in sorted(self._kept.items()):
            self._print(minion, ret)
        if self._out == "json":
            from catena.cli.output.plain import document

            print(document(self._values))
        elif self._out == "yaml":
            from catena.renderers.yaml import dump

            print(dump(self._values).rstrip("\n"))


class Shown(NamedTuple):
    """How the returns of a job are printed."""

    #: --out, or "".
    out: str = ""
    #: Style of state runs.
    style: StateStyle = FULL
    #: Whether everything is printed at the end, sorted by minion.
    static: bool = False
    #: Whether the numbers of minions are printed at the end, as Salt's --summary does.
    summary: bool = False
    #: First line of a live view on a terminal; "": no live view.
    title: str = ""
    #: Whether the job's output is shown on stderr while it runs.
    output: bool = False


def follow_job(
    client: MasterClient,
    ask: Ask[Any, Any, Any],
    request: Any,
    shown: Shown,
    timeout: Optional[float] = None,
) -> int:
    """Send a request that streams a job, and `follow` the job.

    The wait for the first item has a limit of its own: without it, nobody knows the job's id.
    """
    if timeout is None:
        return follow(client.stream(ask, request), shown)
    timeout = max(timeout, _SNAPSHOT_SECONDS)
    first = max(timeout, _CONFIRM_SECONDS)
    return follow(client.stream(ask, request, timeout, first), shown, timeout)


def follow(
    items: Iterator[Mapping[str, Any]], shown: Shown, timeout: Optional[float] = None
) -> int:
    """Print a job's stream until nothing more can arrive; return the exit code.

    Args:
        items: stream of job.run or job.watch.
        shown: how to print it.
        timeout: seconds to watch after the first item, absent minions included; None: until every
            connected minion has returned. The job itself continues in any case.
    """
    follower = JobFollower(wait_for_absent=timeout is not None)
    printer = JobPrinter(shown.out, shown.style, shown.static)
    deadline: Optional[float] = None
    printed = PrintedLines() if shown.output else None
    try:
        with closing(_fed(items, follower, shown.title)) as fed, closing(FetchLines()) as lines:
            for item in fed:
                if timeout is not None and deadline is None:
                    deadline = time.monotonic() + timeout
                if not shown.title:
                    lines.feed(item)
                _print_output(printed, item)
                if item.get("type") == "return":
                    printer.show(item["minion"], item["ret"])
                if follower.finished or (deadline is not None and time.monotonic() > deadline):
                    break
    except KeyboardInterrupt:
        printer.finish()
        return _detach(follower)
    except UnreachableError as error:
        # Silence until the deadline is normal; before it, the master has disconnected.
        if not follower.jid:
            raise
        if deadline is None or time.monotonic() < deadline - 0.1:
            raise UnreachableError(
                f"{error}; the job continues: catena job watch {follower.jid}"
            ) from None
    printer.finish()
    code = _report_unfinished(follower)
    if shown.summary:
        _print_line(_summary(follower))
    return code


def _detach(follower: JobFollower) -> int:
    """Say how to see the job again after the user interrupts the command; return the exit code."""
    if follower.jid:
        _print_line(f"detached; the job continues: catena job watch {follower.jid}")
    else:
        _print_line("interrupted before the master confirmed the job; see: catena job list")
    return 130


def _fed(
    items: Iterator[Mapping[str, Any]], follower: JobFollower, title: str
) -> Generator[Mapping[str, Any], None, None]:
    """Yield *items* after *follower* has processed them; with a title, perhaps in a live view."""
    if title:
        from catena.cli.job_view import watched

        yield from watched(items, follower, title)
        return
    for item in items:
        follower.feed(item)
        yield item


def _summary(follower: JobFollower) -> str:
    """Return Salt's block with the numbers of minions."""
    rule = "-------------------------------------------"
    away = len(follower.open())
    rows = {
        "targeted": len(follower.states),
        "returned": len(follower.returns),
        "that did not return": away,
        "with errors": len(follower.failed()),
    }
    lines = [f"# of minions {what}: {number}" for what, number in rows.items()]
    return "\n".join([rule, "Summary", rule, *lines, rule])


def _report_unfinished(follower: JobFollower) -> int:
    """List on stderr the minions without a return and with failures; return the exit code."""
    for minion in follower.missing:
        _print_line(f"{minion}: not an accepted minion")
    for minion, what in follower.open().items():
        _print_line(f"{minion}: {printable(what)}")
    failed = [f"{name} (code {code})" for name, code in follower.failed().items()]
    if failed:
        more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        _print_line(f"failed: {', '.join(failed[:_NAMED])}{more}")
    code = max(follower.exit_code(), UnreachableError.exit_code if follower.missing else 0)
    if code in {UnreachableError.exit_code, TryLaterError.exit_code}:
        _print_line(f"look again with: catena job watch {follower.jid}")
    return code


def _print_output(printed: Optional[PrintedLines], item: Mapping[str, Any]) -> None:
    """Show the output of a running job, if it was requested."""
    for line in printed.feed(item) if printed is not None else ():
        _print_line(line)


def _print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

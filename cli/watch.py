"""Following one job: what is printed while it runs, and what is said at its end."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, Iterator, Mapping, Optional

from catena.cli.output.answers import answer
from catena.cli.output.style import FULL, StateStyle
from catena.cli.output.text import printable, wants_colour
from catena.client.follow import JobFollower
from catena.core.errors import TryLaterError, UnreachableError

#: Outputs that are one document of all minions, printed at the end.
_WHOLE = frozenset({"json", "yaml"})

#: So many failed minions are named at the end.
_NAMED = 20


class JobPrinter:
    """Prints the returns of a job as they come (or at the end, where the output is one document).

    Args:
        out: name of an output; "" takes the one that each return asks for.
        style: of state runs.
    """

    def __init__(self, out: str, style: StateStyle = FULL) -> None:
        self._out = out
        self._style = style
        self._values: Dict[str, Any] = {}
        self._colour = wants_colour()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is printed before the end."""
        return self._out in _WHOLE

    def show(self, minion: str, ret: Mapping[str, Any]) -> None:
        """Print one return, or keep it for the end."""
        if self.is_whole:
            self._values[minion] = ret["value"]
            return
        text = answer(minion, ret, self._out, self._colour, self._style)
        if text:
            print(text, flush=True)

    def finish(self) -> None:
        """Print what was kept."""
        if self._out == "json":
            from catena.cli.output.plain import document

            print(document(self._values))
        elif self._out == "yaml":
            from catena.renderers.yaml import dump

            print(dump(self._values).rstrip("\n"))


def follow(
    items: Iterator[Mapping[str, Any]],
    out: str,
    timeout: Optional[float] = None,
    style: StateStyle = FULL,
) -> int:
    """Print a job's stream until nothing more can come; return the exit code.

    Args:
        items: stream of job.run or job.watch.
        out: --out, or "".
        timeout: seconds to watch, absent minions included; None: until every minion that is
            connected has answered. The job itself goes on whatever we do.
        style: of state runs.
    """
    follower, printer = JobFollower(wait_for_absent=timeout is not None), JobPrinter(out, style)
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        for item in items:
            follower.feed(item)
            if item.get("type") == "return":
                printer.show(item["minion"], item["ret"])
            if follower.finished or (deadline is not None and time.monotonic() > deadline):
                break
    except KeyboardInterrupt:
        printer.finish()
        if follower.jid:
            _say(f"detached; the job goes on: catena job watch {follower.jid}")
        else:
            _say("interrupted before the master confirmed the job; see: catena job list")
        return 130
    except UnreachableError as error:
        # Silence up to the deadline is no fault; silence before it is a master that went away.
        if deadline is None or time.monotonic() < deadline - 0.1:
            if not follower.jid:
                raise
            raise UnreachableError(
                f"{error}; the job goes on: catena job watch {follower.jid}"
            ) from None
    printer.finish()
    return _account(follower)


def _account(follower: JobFollower) -> int:
    """Say on stderr who has not answered, and how to look again."""
    for minion in follower.missing:
        _say(f"{minion}: no such minion is accepted here")
    for minion, what in follower.open().items():
        _say(f"{minion}: {printable(what)}")
    failed = [f"{name} (code {code})" for name, code in follower.failed().items()]
    if failed:
        more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        _say(f"failed: {', '.join(failed[:_NAMED])}{more}")
    code = max(follower.exit_code(), UnreachableError.exit_code if follower.missing else 0)
    if code in {UnreachableError.exit_code, TryLaterError.exit_code}:
        _say(f"look again with: catena job watch {follower.jid}")
    return code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

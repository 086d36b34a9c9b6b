"""One job as text: user and function, and the outcome on each minion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from catena.cli.output.answers import answer
from catena.cli.output.style import FULL, StateStyle
from catena.cli.output.table import clock
from catena.cli.output.text import paint, printable

if TYPE_CHECKING:
    from catena.client.replies.jobs import JobDetail, JobOutcome


def job_text(view: JobDetail, colour: bool, how: StateStyle = FULL) -> str:
    """Return everything about one job; *how* is the style of state runs."""
    return "\n".join(_job(view, colour, how))


def _job(view: JobDetail, colour: bool, how: StateStyle) -> Iterator[str]:
    words = [str(word) for word in view.args]
    words += [f"{key}={word}" for key, word in view.kwargs.items()]
    yield printable(f"Job {view.jid}: {' '.join([view.fun, *words])}")
    facts = [f"on {view.target} ({view.tgt_type})", f"by {view.user}"]
    facts.append(f"at {clock(view.issued, True)}")
    facts.append(f"ended {clock(view.ended, True)}" if view.ended else "not ended")
    yield printable("  " + ", ".join(facts))
    for minion, known in sorted(view.minions.items()):
        yield ""
        yield from _minion(minion, known, colour, how)


def _minion(minion: str, known: JobOutcome, colour: bool, how: StateStyle) -> Iterator[str]:
    ret, state = known.ret, known.state or ""
    if ret is None:
        steps = known.steps or ()
        seen = f", {len(steps)} steps, the last at {clock(steps[-1].when)}" if steps else ""
        detail = f": {known.detail}" if known.detail else ""
        yield paint(printable(f"{minion}: {state}{detail}{seen}"), "yellow", colour)
        return
    bad = not ret.success or ret.retcode
    end = f"failed (code {ret.retcode})" if bad else "succeeded"
    late = f", after its delivery was {state}" if known.late else ""
    head = f"{end} in {ret.duration_seconds:.3g} s{late}"
    yield paint(printable(f"{minion} {head}"), "light_red" if bad else "green", colour)
    yield answer(minion, {"value": ret.value, "out": ret.out}, "", colour, how)

"""One job as text: user and function, and the outcome on each minion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from catena.cli.output import renderer
from catena.cli.output.table import clock
from catena.cli.output.text import paint, printable

if TYPE_CHECKING:
    from catena.client.replies.jobs import JobDetail, JobOutcome

_OUTS = frozenset({"highstate", "txt"})


def job_text(view: JobDetail, colour: bool) -> str:
    """Return everything about one job."""
    return "\n".join(_job(view, colour))


def _job(view: JobDetail, colour: bool) -> Iterator[str]:
    words = [str(word) for word in view.args]
    words += [f"{key}={word}" for key, word in view.kwargs.items()]
    yield printable(f"Job {view.jid}: {' '.join([view.fun, *words])}")
    facts = [f"on {view.target} ({view.tgt_type})", f"by {view.user}"]
    facts.append(f"at {clock(view.issued, True)}")
    facts.append(f"ended {clock(view.ended, True)}" if view.ended else "not ended")
    yield printable("  " + ", ".join(facts))
    for minion, known in sorted(view.minions.items()):
        yield ""
        yield from _minion(minion, known, colour)


def _minion(minion: str, known: JobOutcome, colour: bool) -> Iterator[str]:
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
    yield renderer(ret.out if ret.out in _OUTS else "nested")(minion, ret.value, colour)

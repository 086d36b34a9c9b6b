"""Measure how costs grow: each kind of work at 1, 10 and 100 times a size.

    python -m bench.growth [--only NAME]

The figures are CPU seconds, which depend little on other load. The cost at the smallest size is
subtracted from the others; the rest may grow by n·log n between the second and the third size.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bench.measure import run
from bench.surroundings import environment
from bench.swarm.station import Station
from catena.client.requests import chains as chain_asks
from catena.client.requests import events as event_asks
from catena.client.requests import jobs as job_asks
from catena.client.requests.chains import ChainDocument, ChainList, ChainSchedule
from catena.client.requests.events import EventSend
from catena.client.requests.jobs import JobList, RunJob
from catena.core.job import FunctionCall, JobSpec
from catena.master.jobs import rows as job_rows
from catena.master.jobs.delivery import Delivery
from catena.master.jobs.model import JobRequest
from catena.master.store.database import Store
from catena.master.store.tables import EVENTS

#: Factor by which noise may increase a ratio.
NOISE = 1.5
STEPS = (1, 10, 100)
#: Number of measurements of fast work at the smaller sizes.
TRIES = 3
CATENA = Path(sys.executable).parent / "catena"


@dataclass(frozen=True)
class Growth:
    """One kind of work."""

    name: str
    title: str
    #: The smallest size.
    base: int
    #: CPU seconds of the work at a size.
    measure: Callable[[int], float]
    #: Number of measurements of the smaller sizes, of which the minimum counts. Their cost is
    #: close
    #: to that of the run itself, which varies.
    tries: int = 1

    def costs(self) -> tuple[float, ...]:
        """Measure all sizes, smallest first."""
        *small, large = (self.base * step for step in STEPS)
        least = [min(self.measure(size) for _ in range(self.tries)) for size in small]
        return *least, self.measure(large)


@dataclass(frozen=True)
class Found:
    """The costs of one kind of work."""

    growth: Growth
    #: CPU seconds by size, smallest first.
    costs: tuple[float, ...]

    @property
    def factor(self) -> float:
        """The ratio of the third to the second cost after subtracting the first."""
        first, second, third = self.costs
        return (third - first) / max(second - first, 0.01)

    @property
    def allowed(self) -> float:
        """The maximum ratio for n·log n, with noise."""
        second, third = (self.growth.base * step for step in STEPS[1:])
        return NOISE * (third * math.log(third)) / (second * math.log(second))

    @property
    def good(self) -> bool:
        """Whether the ratio is within the limit."""
        return self.factor <= self.allowed


def table(found: list[Found]) -> str:
    """Return a Markdown table."""
    lines = [
        "| work | size | CPU at 1× | 10× | 100× | 10× to 100× | |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        costs = " | ".join(f"{cost:.2f} s" for cost in one.costs)
        verdict = "fine" if one.good else f"over {one.allowed:.0f}"
        size = f"{one.growth.base:,}"
        lines.append(f"| {one.growth.title} | {size} | {costs} | {one.factor:.1f} | {verdict} |")
    return "\n".join(lines)


# -- the master --------------------------------------------------------------------------------


def connected(minions: int) -> float:
    """Connect a fleet and ping it."""
    with Station(minions, {"reactor_defaults": False}) as station:
        before = station.cpu()
        station.connect(minions)
        station.job("test.ping")
        return station.cpu() - before


def jobs(count: int) -> float:
    """Work beside so many ended jobs in the store: ten jobs, two lists."""

    def fill(conn: sa.Connection) -> None:
        spec = JobSpec("", "test.ping", tgt="*", issued=time.time())
        request = JobRequest("root", FunctionCall("test.ping"))
        for number in range(count):
            one = replace(spec, jid=f"2026010112{number:010d}")
            new = job_rows.NewJob(one, request, {f"old{n}": Delivery.done for n in range(5)})
            job_rows.insert(conn, new)

    with _beside(fill) as station:
        before = station.cpu()
        for _ in range(10):
            station.client.request(job_asks.RUN, RunJob(tgt="*", fun="test.ping"))
        for _ in range(2):
            station.client.request(job_asks.LIST, JobList(limit=50))
        time.sleep(6)  # expiry and resending look at jobs every five seconds
        return station.cpu() - before


def events(count: int) -> float:
    """Work beside so many events in the store: two hundred events sent."""

    def fill(conn: sa.Connection) -> None:
        row = {"tag": "old/event", "data": {"text": "x" * 100}, "at": time.time(), "source": ""}
        conn.execute(sa.insert(EVENTS), [row] * count)

    with _beside(fill) as station:
        before = station.cpu()
        for _ in range(200):
            station.client.request(event_asks.SEND, EventSend("new/event", {}))
        time.sleep(2)
        return station.cpu() - before


def chains(count: int) -> float:
    """Work beside so many chains in the store: five more, run to dispatch, and two lists."""
    with Station(20) as station:
        for number in range(count):
            _chain(station, f"old{number}", at=time.time() + 86400)
        before = station.cpu()
        for number in range(5):
            _chain(station, f"new{number}")
        for _ in range(2):
            station.client.request(chain_asks.LIST, ChainList(limit=50))
        time.sleep(6)  # the scheduler looks every five seconds
        return station.cpu() - before


def _chain(station: Station, label: str, at: float = 0.0) -> None:
    action = {"kind": "call", "data": {"fun": "test.ping"}}
    entry: dict[str, Any] = {"tgt": "*", "tgt_type": "glob", "action": action}
    station.client.request(chain_asks.APPLY, ChainDocument(label, (entry, entry)))
    station.client.request(chain_asks.SCHEDULE, ChainSchedule(label, at))


def _beside(fill: Callable[[sa.Connection], None]) -> Station:
    """Return a master of ten minions that found so much in its store."""

    async def write(database: Path) -> None:
        store = Store(f"sqlite:///{database}")
        await store.open()
        await store.write(fill)
        await store.close()

    return Station(10, {"reactor_defaults": False}, before=lambda path: asyncio.run(write(path)))


# -- one host ----------------------------------------------------------------------------------


def nops(count: int) -> float:
    """Apply no-op states."""
    return _apply("".join(f"nop{n}:\n  test.nop\n" for n in range(count)))


def required(count: int) -> float:
    """Apply states that each require the one before."""
    lines = ["nop0:\n  test.nop\n"]
    lines += [
        f"nop{n}:\n  test.nop:\n  - require:\n    - test: nop{n - 1}\n" for n in range(1, count)
    ]
    return _apply("".join(lines))


def required_sls(count: int) -> float:
    """Apply so many states that each require an SLS of as many."""
    half = count // 2
    other = "".join(f"other{n}:\n  test.nop\n" for n in range(half))
    mine = "include: [other]\n" + "".join(
        f"mine{n}:\n  test.nop:\n  - require:\n    - sls: other\n" for n in range(half)
    )
    return _apply(mine, other=other)


def required_in_sls(count: int) -> float:
    """Apply so many states that are each required by an SLS of as many."""
    half = count // 2
    other = "".join(f"other{n}:\n  test.nop\n" for n in range(half))
    mine = "include: [other]\n" + "".join(
        f"mine{n}:\n  test.nop:\n  - require_in:\n    - sls: other\n" for n in range(half)
    )
    return _apply(mine, other=other)


#: A state module whose states can be aggregated.
_OWN = """\
def done(name):
    return {"name": name, "result": True, "changes": {}, "comment": ""}


def mod_aggregate(low, chunks, running):
    return low
"""


def joined(count: int) -> float:
    """Apply states that could be aggregated, but each of which requires the previous one."""
    text = "own0:\n  own.done:\n  - aggregate: true\n" + "".join(
        f"own{n}:\n  own.done:\n  - aggregate: true\n  - require:\n    - own: own{n - 1}\n"
        for n in range(1, count)
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        custom = folder / "states" / "_states" / "own.py"
        custom.parent.mkdir(parents=True)
        custom.write_text(_OWN, encoding="utf-8")
        _configure(folder)
        _call(folder, "saltutil.sync_states")
        return _apply(text, folder)


def files(count: int) -> float:
    """Write a tree of small files, then check it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = folder / "states" / "tree"
        for number in range(count):
            path = source / f"d{number % 50}" / f"f{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"file {number}\n", encoding="utf-8")
        text = f"{folder}/out:\n  file.recurse:\n  - source: salt://tree\n"
        return sum(_apply(text, folder) for _ in range(2))


def _apply(text: str, folder: Path | None = None, **others: str) -> float:
    with tempfile.TemporaryDirectory() as place:
        home = folder or Path(place)
        states = home / "states"
        states.mkdir(exist_ok=True)
        for name, content in {"work": text, **others}.items():
            (states / f"{name}.sls").write_text(content, encoding="utf-8")
        _configure(home)
        return _call(home, "state.apply", "work")


def _configure(home: Path) -> None:
    (home / "minion").write_text(
        f"file_roots: {{base: [{home / 'states'}]}}\nid: growth\nfile_client: local\n",
        encoding="utf-8",
    )


def _call(home: Path, *words: str) -> float:
    """Return the CPU seconds of a call."""
    call: list[str | Path] = [CATENA, "-c", home, "call", "--local", *words, "--out", "quiet"]
    return run(call, environment()).cpu


GROWTHS = (
    Growth("minions", "connect minions and ping them", 10, connected),
    Growth("jobs", "10 jobs beside so many in the store", 100, jobs),
    Growth("events", "200 events beside so many in the store", 1000, events),
    Growth("chains", "5 chains beside so many in the store", 5, chains),
    Growth("states", "states of a run", 100, nops, TRIES),
    Growth("requires", "states that each require the one before", 100, required, TRIES),
    Growth("require-sls", "states that each require an SLS", 20, required_sls, TRIES),
    Growth(
        "require-in-sls", "states that are each required by an SLS", 20, required_in_sls, TRIES
    ),
    Growth(
        "aggregate", "states that could join and each require the one before", 20, joined, TRIES
    ),
    # Enough files to exceed the cost of the two runs themselves.
    Growth("files", "files of a tree, laid out and looked at again", 100, files, TRIES),
)


def main() -> int:
    """Measure; return 1 where something grows too fast."""
    parser = argparse.ArgumentParser(description="How costs grow with the work.")
    names = [growth.name for growth in GROWTHS]
    parser.add_argument("--only", action="append", default=[], choices=names)
    given = parser.parse_args()
    # SIGTERM must end the fixtures too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found = []
    for growth in GROWTHS:
        if given.only and growth.name not in given.only:
            continue
        found.append(Found(growth, growth.costs()))
        print(f"{growth.name}: {found[-1].costs}", file=sys.stderr, flush=True)
    print(table(found))
    return 0 if all(one.good for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())

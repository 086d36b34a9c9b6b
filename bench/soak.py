"""Check in a long run with a simulated fleet that the master's memory does not grow.

    python -m bench.soak --minutes 30 --minions 1000

The load is pings, commands, events and chains with a reboot at a steady, moderate rate. A
connection reaches its full memory with its 512th message: each queue has two blocks for 256
messages, whose pages become resident with the first use. Every minion therefore sends heartbeats
first, and the same hundred minions do all reboots, which open new connections.

Other memory reaches its limit only slowly: SQLite's pages and prepared statements (one for each
power of two of the length of a list of minions), and the fragmentation of the heap. The same load
therefore runs FIRST_ROUNDS times without a pause before the clock starts.

Work in progress and the newest events vary by some megabytes, so growth is measured at rest. In
every five minutes the load pauses for more than a minute, in which the master returns free pages;
the memory in the pauses is compared. From minute 5 on it may grow by less than 1 MB per hour, and
the number of descriptors not at all. Every chain must be done and no minion may be lost. Otherwise
the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.swarm.station import Station
from catena.client.requests import chains
from catena.client.requests.chains import ChainDocument, ChainList, ChainSchedule

#: Seconds until caches and pools are full.
WARM_SECONDS = 300.0
#: The load pauses for the last REST_SECONDS of each REST_EVERY seconds. The master returns free
#: pages once a minute, which therefore happens in every pause after its pings.
REST_EVERY = 300.0
REST_SECONDS = 120.0
#: Number of pings of the whole fleet before a pause: they replace all events that the master keeps
#: in memory, so that every pause has the same ones.
LAST_PINGS = 5
#: Number of rounds of all work at full speed before the clock starts, which is as much work as in
#: half an hour. Python allocates memory by the megabyte, so its maximum has to be reached before.
FIRST_ROUNDS = 60
SAMPLE_SECONDS = 1.0
SAY_SECONDS = 60.0
GROWTH_LIMIT_MB = 1.0
#: Number of heartbeats per minion: more than the 512 messages after which a queue of libzmq has
#: allocated all its memory.
BEATS = 600
#: Minions of each chain, and those that have chains in turn: each again in two and a half minutes.
CHAIN_MINIONS = 20
CHAIN_FLEET = 100
#: Minions of each round of events.
EVENT_MINIONS = 100
ENDED = frozenset({"done", "failed", "cancelled"})


@dataclass(frozen=True)
class Sample:
    """What the master was at one moment."""

    seconds: float
    #: Memory of its own, without files, 10⁶ bytes.
    memory: float
    descriptors: int
    #: CPU seconds of the master and its workers since its start.
    cpu: float


@dataclass(frozen=True)
class Verdict:
    """What the samples come to."""

    #: MB per hour after the warm-up, by a line through the least of each pause.
    memory_per_hour: float
    #: The least descriptors of the last pause less those of the first after the warm-up.
    descriptors: int

    @property
    def good(self) -> bool:
        """Whether the master does not grow."""
        return self.memory_per_hour < GROWTH_LIMIT_MB and self.descriptors <= 0


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median of the slopes between all pairs of points, which outliers do not bend."""
    found = [
        (y2 - y1) / (x2 - x1)
        for index, (x1, y1) in enumerate(points)
        for x2, y2 in points[index + 1 :]
        if x2 > x1
    ]
    return statistics.median(found) if found else 0.0


def pauses(seconds: float) -> bool:
    """Return whether the load pauses then, so many seconds after the start."""
    return seconds % REST_EVERY >= REST_EVERY - REST_SECONDS


def judge(samples: Sequence[Sample], warm: float = WARM_SECONDS) -> Verdict:
    """Return what *samples* say about growth after the first *warm* seconds."""
    rests: defaultdict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.seconds >= warm and pauses(sample.seconds):
            rests[int(sample.seconds // REST_EVERY)].append(sample)
    least = [min(rest, key=lambda sample: sample.memory) for rest in rests.values()]
    per_second = slope([(sample.seconds, sample.memory) for sample in least])
    open_files = [min(sample.descriptors for sample in rest) for rest in rests.values()]
    return Verdict(per_second * 3600, open_files[-1] - open_files[0] if open_files else 0)


def look(pid: int, began: float, cpu: float) -> Sample:
    """Return a sample of the process *pid*."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    kib = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon"))
    count = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return Sample(time.monotonic() - began, kib * 1024 / 1e6, count, cpu)


class Load:
    """What a fleet is asked and says, each kind at its own pace."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self.chains: list[str] = []
        self.counts: Counter[str] = Counter()
        self._paused = False
        self._due = dict.fromkeys(("events", "ping", "command", "chain"), 0.0)
        self._kinds: dict[str, tuple[float, Callable[[], None]]] = {
            "events": (5.0, self._events),
            "ping": (10.0, self._ping),
            "command": (30.0, self._command),
            "chain": (30.0, self._chain),
        }

    def step(self, now: float) -> None:
        """Do what is due *now*, seconds since the start, or rest."""
        before, self._paused = self._paused, pauses(now)
        if self._paused and not before:
            for _ in range(LAST_PINGS):
                self._ping()
        if self._paused:
            return
        for kind, (every, act) in self._kinds.items():
            if now >= self._due[kind]:
                self._due[kind] = now + every
                act()
                self.counts[kind] += 1

    def hurry(self, rounds: int) -> None:
        """Do everything so many times, without a pause."""
        for _ in range(rounds):
            for _, act in self._kinds.values():
                act()

    def unfinished(self) -> list[str]:
        """Return labels of chains that are not done, with their states."""
        rows = self._station.client.request(chains.LIST, ChainList(all=True, limit=10_000))
        states = {row["label"]: row["state"] for row in rows}
        return [f"{label}: {states.get(label)}" for label in self.chains
                if states.get(label) != "done"]  # fmt: skip

    def _events(self) -> None:
        assert self._station.swarm is not None
        self._station.swarm.fire(EVENT_MINIONS, each=5, window=5)

    def _ping(self) -> None:
        self._station.job("test.ping")

    def _command(self) -> None:
        self._station.job("cmd.run", "true")

    def _chain(self) -> None:
        label = f"soak{len(self.chains)}"
        fleet = self._station.members[:CHAIN_FLEET]
        first = len(self.chains) * CHAIN_MINIONS % len(fleet)
        names = [member.id for member in fleet[first : first + CHAIN_MINIONS]]
        ping = {"kind": "call", "data": {"fun": "test.ping"}}
        steps = (ping, {"kind": "reboot"}, ping)
        entries = tuple(
            {"tgt": ",".join(names), "tgt_type": "list", "action": step} for step in steps
        )
        client = self._station.client
        client.request(chains.APPLY, ChainDocument(label, entries))
        client.request(chains.SCHEDULE, ChainSchedule(label))
        self.chains.append(label)


def run(minutes: float, minions: int, out: Path | None) -> bool:
    """Run it; return whether everything held."""
    samples: list[Sample] = []
    with Station(minions) as station:
        swarm = station.connect(minions)
        load = Load(station)
        swarm.beat(BEATS)
        load.hurry(FIRST_ROUNDS)
        began = time.monotonic()
        sampled = said = 0.0
        while (now := time.monotonic()) - began < minutes * 60:
            load.step(now - began)
            if now - sampled >= SAMPLE_SECONDS:
                sampled = now
                samples.append(look(station.process.pid, began, station.cpu()))
            if now - said >= SAY_SECONDS and samples:
                said = now
                _say(samples[-1], load)
            time.sleep(0.2)
        time.sleep(20)
        unfinished = load.unfinished()
        stats = swarm.stats()
    verdict = judge(samples)
    held = verdict.good and not unfinished and stats["up"] == minions
    result = {
        "verdict": asdict(verdict), "held": held, "load": load.counts, "swarm": stats,
        "unfinished": unfinished[:20], "failures": list(swarm.failures)[:20],
        "samples": [asdict(sample) for sample in samples],
    }  # fmt: skip
    if out is not None:
        out.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(json.dumps({key: value for key, value in result.items() if key != "samples"}, indent=1))
    return held


def _say(sample: Sample, load: Load) -> None:
    print(
        f"{sample.seconds:7.0f} s  {sample.memory:7.2f} MB  {sample.descriptors} descriptors  "
        f"{sample.cpu:7.1f} s CPU  {dict(load.counts)}",
        flush=True,
    )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Watch a master's memory under a steady load.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--minions", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=None, help="JSON file with all samples")
    given = parser.parse_args()
    # SIGTERM must end the fixtures too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(0 if run(given.minutes, given.minions, given.out) else 1)


if __name__ == "__main__":
    main()

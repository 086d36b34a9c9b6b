"""Rows of one master with simulated minions: throughput, and memory per minion."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.lab import Lab
from bench.row import Limit, Row, Sample
from bench.swarm.station import Station
from bench.swarm.swarm import Swarm
from catena.client.requests import chains, jobs
from catena.client.requests import events as event_asks
from catena.client.requests.chains import ChainDocument, ChainList, ChainSchedule
from catena.client.requests.events import EventSend
from catena.client.requests.jobs import JobList, RunJob

FLEET = 1000
BIG_FLEET = 10_000
#: Number of events of one minion, and of unacknowledged events at a time.
EVENTS, WINDOW = 5000, 100
#: Number of concurrent jobs on the whole fleet, for returns per second.
JOBS = 10
RETURN_BYTES = 3000
REACTIONS = 30
STARTS = 20
#: Number of events that a master keeps in memory.
EVENTS_KEPT = 4096
ACTIONS = 10
#: Reactor file that pings the minion named by the event.
REACTION = """\
bench:
  local.test.ping:
  - tgt: {{ data['id'] }}
  - tgt_type: list
"""
_counter = iter(range(1_000_000))
_booted = iter(range(1_000_000))


def _station(lab: Lab, minions: int = FLEET) -> Station:
    """Return a running master whose fleet is connected and at rest."""

    def start() -> Station:
        file = lab.folder("reactor") / "bench.sls"
        file.write_text(REACTION, encoding="utf-8")
        station = Station(minions, {"reactor": [{"bench/react": [str(file)]}]})
        _at_rest(station, station.connect(minions, return_bytes=RETURN_BYTES))
        station.job("test.ping")
        return station

    return lab.keep(f"station{minions}", start)


def _at_rest(station: Station, swarm: Swarm) -> None:
    """Wait until the master has processed the starts of the minions."""
    while swarm.stats().get("ReturnStored", 0) < swarm.size:
        time.sleep(0.2)


def _with_cpu(station: Station, work: Callable[[], float]) -> Sample:
    before = station.cpu()
    value = work()
    return Sample(value, station.cpu() - before)


def ping(lab: Lab) -> Sample:
    """A ping of all, from a kept client."""
    station = _station(lab)
    return _with_cpu(station, lambda: station.job("test.ping"))


def returns(lab: Lab) -> Sample:
    """Returns per second, from the first job's submission until the store has the last one."""
    station = _station(lab)
    client = station.client

    def work() -> float:
        began = time.monotonic()
        for _ in range(JOBS):
            client.request(jobs.RUN, RunJob(tgt="*", fun="cmd.run", args=("true",)))
        while client.request(jobs.LIST, JobList(limit=JOBS, active=True)):
            time.sleep(0.05)
        return JOBS * FLEET / (time.monotonic() - began)

    return _with_cpu(station, work)


def events(lab: Lab) -> Sample:
    """Events of one minion per second, each acknowledged when it is durable."""
    station = _station(lab)
    assert station.swarm is not None
    swarm = station.swarm

    def work() -> float:
        done = swarm.fire(1, EVENTS, WINDOW)
        return float(done["events"] / done["seconds"])

    return _with_cpu(station, work)


def reaction(lab: Lab) -> Sample:
    """Milliseconds from an event on the master's bus to its job at the minion."""
    station = _station(lab)
    assert station.swarm is not None
    swarm, found = station.swarm, []
    swarm.watch("test.ping")
    for _ in range(REACTIONS):
        began = time.monotonic()
        send = EventSend("bench/react", {"id": station.members[0].id})
        station.client.request(event_asks.SEND, send)
        found.append(swarm.next_order() - began)
    swarm.watch("")
    return Sample(statistics.median(found[1:]) * 1000)


def resume(lab: Lab) -> Sample:
    """Milliseconds from a minion's hello after its boot to the resume job of its chain."""
    station = _station(lab)
    assert station.swarm is not None
    found = []
    for _ in range(STARTS):
        # Use another minion each time: after thirty hellos, a key is limited to one per second.
        found += station.swarm.reboot(1, next(_booted) % (FLEET // 4))
    return Sample(statistics.median(found[1:]) * 1000)


def chain(lab: Lab) -> Sample:
    """Milliseconds per chunk file, for a chain of the fleet."""
    return _chain(_idle_station(lab, FLEET))


def big_chain(lab: Lab) -> Sample:
    """Milliseconds per chunk file, for a chain of ten times the fleet."""
    return _chain(_idle_station(lab, BIG_FLEET))


def _idle_station(lab: Lab, minions: int) -> Station:
    """Return a master whose minions are all away: what is measured is its own work."""
    return lab.keep(f"idle{minions}", lambda: Station(minions))


def _chain(station: Station) -> Sample:
    label = f"bench{next(_counter)}"
    action = {"kind": "call", "data": {"fun": "test.ping"}}
    entry: dict[str, Any] = {"tgt": "*", "tgt_type": "glob", "action": action}
    client = station.client
    client.request(chains.APPLY, ChainDocument(label, (entry,) * ACTIONS))

    def work() -> float:
        began = time.monotonic()
        client.request(chains.SCHEDULE, ChainSchedule(label))
        while client.request(chains.LIST, ChainList(limit=1))[0]["state"] == "scheduled":
            time.sleep(0.1)
        return (time.monotonic() - began) * 1000 / len(station.members)

    return _with_cpu(station, work)


def memory(lab: Lab) -> Sample:
    """The memory of the master process per connected minion, in KB.

    Memory with a limit (the newest events, SQLite's pages) is filled before.
    """
    station = lab.keep("growing", lambda: Station(FLEET, {"reactor_defaults": False}))
    few = FLEET // 10
    station.connect(few)
    for _ in range(EVENTS_KEPT // few + 1):
        station.job("test.ping", tgt="sim000*")
    time.sleep(2)
    before = station.tree.pss()
    station.connect(FLEET)
    station.job("test.ping")
    time.sleep(2)
    return Sample((station.tree.pss() - before) * 1e3 / (FLEET - few))


ROWS = (
    Row(
        name="ping-1000",
        title="ping of 1 000 simulated minions from a kept client",
        unit="s",
        tools={"catena": ping},
        aim=Limit(0.2),
        note="CPU of the master; the minions are simulated on the same machine",
    ),
    Row(
        name="returns",
        title="returns stored per second, 3 KB each",
        unit="returns/s",
        tools={"catena": returns},
        aim=Limit(5000),
        less_is_better=False,
        repeats=3,
        quick=1,
        note=f"{JOBS} jobs at a time on 1 000 simulated minions; SQLite, one master",
    ),
    Row(
        name="events",
        title="events of one minion, acknowledged",
        unit="events/s",
        tools={"catena": events},
        # 30 times the 150 a second of a Salt minion (120 to 182 by the machine's load).
        aim=Limit(4500),
        less_is_better=False,
        repeats=3,
        quick=1,
        note=f"a simulated minion, at most {WINDOW} on their way",
    ),
    Row(
        name="reactor",
        title="reactor: event on the master's bus to its order at the minion",
        unit="ms",
        tools={"catena": reaction},
        # A 15th of the 105 ms of a Salt master (84 to 137 by the machine's load).
        aim=Limit(7),
        repeats=3,
        quick=1,
    ),
    Row(
        name="resume",
        title="chain: a minion's start event to the order to go on",
        unit="ms",
        tools={"catena": resume},
        aim=Limit(50),
        repeats=3,
        quick=1,
        note="from the opening of the connection; the minion's own start is not in it",
    ),
    Row(
        name="chain-1000",
        title="chain: schedule and render 10 actions for 1 000 minions, per chunk file",
        unit="ms",
        tools={"catena": chain},
        aim=Limit(1),
        repeats=3,
        quick=1,
    ),
    Row(
        name="chain-10000",
        title="chain: schedule and render 10 actions for 10 000 minions, per chunk file",
        unit="ms",
        tools={"catena": big_chain},
        aim=Limit(1),
        repeats=1,
        quick=0,
    ),
    Row(
        name="master-per-minion",
        title="master: memory per extra simulated minion",
        unit="KB",
        tools={"catena": memory},
        aim=Limit(60),
        repeats=1,
        quick=0,
        note="PSS, 900 minions on top of 100, whose events and pages fill their bounds before",
    ),
)

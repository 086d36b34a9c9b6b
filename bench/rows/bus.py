"""Rows of events with one real minion: rate of sending, latency of a reaction."""

from __future__ import annotations

import itertools
import statistics
from contextlib import closing

from bench.arrival import Arrivals
from bench.equipment.fleet import Fleet
from bench.equipment.shared import on_both
from bench.errors import BenchError
from bench.row import Row, Sample, Times

#: Number of events that one job sends.
EVENTS = 300
#: Number of consecutive events with a reaction, in a full and a quick run.
EFFECTS, QUICK_EFFECTS = 20, 8
#: A custom execution module that sends events, for catena and Salt.
MODULE = """\
def many(count, tag):
    for number in range(count):
        if not __salt__['event.send'](tag + '/' + str(number), {'number': number}):
            return False
    return True
"""
_turn = itertools.count()


def events(fleet: Fleet) -> Sample:
    """Events per second, from the first to the last on the master's bus."""
    _sync(fleet)
    tag = f"bench/fire{next(_turn)}"
    with fleet.another_client() as first, fleet.another_client() as last:
        first.listen(f"{tag}/0")
        last.listen(f"{tag}/{EVENTS - 1}")
        before = fleet.cpu()
        answer = fleet.client.ask("benchfire.many", EVENTS, tag)
        if answer.minions != 1:
            raise BenchError("the minion did not send its events")
        begun = first.heard()
        return Sample((EVENTS - 1) / (last.heard() - begun), fleet.cpu() - before)


def _sync(fleet: Fleet) -> None:
    file = fleet.states / "_modules/benchfire.py"
    if file.exists():
        return
    file.parent.mkdir(exist_ok=True)
    file.write_text(MODULE, encoding="utf-8")
    if fleet.client.ask("saltutil.sync_modules").minions != 1:
        raise BenchError("the minion did not take the module")


def effect(fleet: Fleet) -> Sample:
    """Seconds from an event on the master's bus to the file that it creates on the minion."""
    with closing(Arrivals(fleet.folder)) as arrivals:
        _one_effect(fleet, arrivals)  # warm up: the first reaction starts processes
        count = QUICK_EFFECTS if fleet.lab.quick else EFFECTS
        before = fleet.cpu()
        seconds = [_one_effect(fleet, arrivals) for _ in range(count)]
    return Sample(statistics.median(seconds) * 1e3, (fleet.cpu() - before) / count)


def _one_effect(fleet: Fleet, arrivals: Arrivals) -> float:
    stamp = fleet.folder / f"effect{next(_turn)}"
    begun = fleet.client.fire(fleet.react_tag, {"path": str(stamp)})
    return arrivals.wait(stamp) - begun


ROWS = (
    Row(
        name="events-minion",
        title="events from a minion's function, to the master's bus",
        unit="events/s",
        tools=on_both(events),
        aim=Times(30),
        less_is_better=False,
        repeats=5,
        quick=2,
        note=f"{EVENTS} times event.send in one job, by a custom execution module",
    ),
    Row(
        name="reactor-effect",
        title="reactor: event on the master's bus to its effect on the minion",
        unit="ms",
        tools=on_both(effect),
        aim=Times(15),
        repeats=3,
        quick=1,
        note="the reaction is `file.touch` on the minion; until the file is there",
    ),
)

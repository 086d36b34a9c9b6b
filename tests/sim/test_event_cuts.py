"""A power failure at every step of the log of events that wait for the master."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from catena.minion.link.event_log import SETTLE_SECONDS, EventLog
from catena.transport import wire
from catena.transport.messages import EventFired
from tests.sim import world
from tests.sim.cuts import Bench
from tests.sim.host import Host
from tests.sim.world import World


def nothing(root: Path) -> None:
    """Nothing was there before."""


def an_event(name: str) -> EventFired:
    return EventFired(name, "some/tag", {"n": name * 20})


def of_an_older_agent(root: Path) -> None:
    (root / "outbox").mkdir(0o700, parents=True)
    (root / "outbox" / "000000000007-old").write_bytes(wire.pack_body(an_event("old")))


def judge_events(root: Path, promised: set[str], gone: set[str]) -> None:
    """What was promised is there and whole; what is durably stored is not said again."""
    log = EventLog(root, lambda: 7.0)
    known = set(log.keys())
    for name in known:
        read = log.read(name)
        assert read is not None and read.body == wire.pack_body(an_event(name)), name
    assert promised <= known and not gone & known, (promised, gone, known)
    # What came through a cut goes on: nothing that is added joins a torn end.
    log.add(an_event("after"))
    log.commit()
    assert set(EventLog(root, lambda: 7.0).keys()) == known | {"after"}


def test_accepted_event_survives_a_power_failure_undamaged(below: Path) -> None:
    def write(root: Path) -> Iterator[str]:
        log = EventLog(root, lambda: 7.0)
        log.add(an_event("one"))
        log.commit()
        yield "one"
        log.add(an_event("two"))
        log.add(an_event("three"))
        log.commit()
        yield "two three"
        log.remove("one", 0.0)
        yield "one is stored"
        log.settle(SETTLE_SECONDS)
        yield "and noted"

    count = 0
    for root, kept, _ in Bench(below, nothing, write).states():
        count += 1
        promised = {name for words in kept[:2] for name in words.split()}
        if len(kept) > 2:
            promised.discard("one")
        judge_events(root, promised, {"one"} if len(kept) > 3 else set())
    assert count > 30


def test_event_log_records_stored_events_with_the_next_commit_and_is_removed_when_empty(
    below: Path,
) -> None:
    def write(root: Path) -> Iterator[str]:
        log = EventLog(root, lambda: 7.0)
        log.add(an_event("one"))
        log.commit()
        yield "one"
        log.remove("one", 0.0)
        log.add(an_event("two"))
        yield "one is stored"
        log.commit()
        log.remove("two", 0.0)
        yield "two is stored"
        log.settle(SETTLE_SECONDS)
        yield "nothing waits"

    lengths = set()
    for root, kept, over in Bench(below, nothing, write).states():
        lengths.add(len(kept))
        promised = {"one"} if len(kept) == 1 else set[str]()
        gone = {"one"} if len(kept) > 2 else set[str]()
        judge_events(root, promised, gone | {"two"} if over else gone)
    assert max(lengths) == 4


def test_event_log_is_compacted_without_losing_an_event(
    below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catena.minion.link.event_log.WASTE_BYTES", 200)

    def four_events(root: Path) -> None:
        of_an_older_agent(root)
        log = EventLog(root, lambda: 7.0)
        for name in ("one", "two", "three", "four"):
            log.add(an_event(name))
        log.commit()
        log.close(0.0)

    def write(root: Path) -> Iterator[str]:
        log = EventLog(root, lambda: 7.0)
        for name in ("old", "one", "two", "three"):
            log.remove(name, 0.0)
        yield "all but four are stored"
        log.settle(0.0)
        yield "written anew"
        log.add(an_event("five"))
        log.commit()
        yield "five"

    lengths = set()
    for root, kept, over in Bench(below, four_events, write).states():
        lengths.add(len(kept))
        stored = {"old", "one", "two", "three"}
        judge_events(root, {"four", "five"} if over else {"four"}, stored if kept[1:] else set())
    assert lengths == set(range(4))


def test_torn_event_log_is_repaired_without_losing_an_event(below: Path) -> None:
    def torn(root: Path) -> None:
        log = EventLog(root, lambda: 7.0)
        log.add(an_event("one"))
        log.commit()
        log.close(0.0)
        with (root / "outbox" / "events.log").open("ab") as stream:
            stream.write(b"seal\0\0\0\x40torn")

    def write(root: Path) -> Iterator[str]:
        log = EventLog(root, lambda: 7.0)
        log.add(an_event("two"))
        log.commit()
        yield "two"

    lengths = set()
    for root, kept, _ in Bench(below, torn, write).states():
        lengths.add(len(kept))
        judge_events(root, {"one", *kept}, set())
    assert lengths == {0, 1}


# -- an agent and its master ----------------------------------------------------------------------

#: Of the steps of an agent that is sent events, each so-many-th is cut.
EVERY = int(os.environ.get("CATENA_SIM_CUTS_EVERY", "3"))


def events_and_a_cut(
    made: World, steps: int, strike: Callable[[Host], None], taken: list[str], stored: list[str]
) -> None:
    """Fire a dozen events; what strikes does so at a step of the agent on its disk."""
    made.orders = []
    made.hosts = {"m1": made.hosts["m1"]}
    host, stage = made.hosts["m1"], made.stage

    def arm() -> None:
        assert host.program is not None
        host.program.steps_left, host.program.fate = steps, lambda: strike(host)

    def told(name: str, fault: Exception | None) -> None:
        if fault is None:
            taken.append(name)

    def fire(name: str) -> None:
        event = EventFired(name, "a/tag", {"n": name})
        host.with_agent(lambda agent: agent.fired(event, partial(told, name)))

    stage.later(1.9, arm)
    for number in range(12):
        stage.later(2.0 + 0.005 * number**2, partial(fire, f"event-{number}"))
    judge = made.checker.at_the_end

    def at_the_end() -> None:
        judge()
        rows = made.checker.ask("SELECT event_id FROM event WHERE event_id IS NOT NULL")
        stored.extend(row["event_id"] for row in rows)

    made.checker.at_the_end = at_the_end  # type: ignore[method-assign]


@pytest.mark.parametrize("strike", [Host.power_cut, Host.kill_agent])
def test_each_accepted_event_is_stored_once_when_the_agent_fails_at_any_step(
    below: Path, strike: Callable[[Host], None]
) -> None:
    kept = 0
    for steps in range(1, 60, EVERY):
        taken: list[str] = []
        stored: list[str] = []
        change = partial(events_and_a_cut, steps=steps, strike=strike, taken=taken, stored=stored)
        outcome = world.run(steps, below, calm=True, change=change)
        assert not outcome.violations, (steps, outcome.violations)
        assert set(taken) <= set(stored), (steps, taken, stored)
        assert len(stored) == len(set(stored)), steps
        kept += len(taken)
    assert kept > 20

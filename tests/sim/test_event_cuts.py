"""A power cut at every step of the log of events that wait for the master."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from catena.minion.event_log import SETTLE_SECONDS, EventLog
from catena.transport import wire
from catena.transport.messages import EventFired
from tests.sim import world
from tests.sim.cuts import Bench


@pytest.fixture(scope="module")
def below() -> Iterator[Path]:
    """Give a folder that lies in memory where it can."""
    folder = world.folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


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


def test_an_event_that_the_agent_took_is_there_and_whole(below: Path) -> None:
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


def test_what_is_stored_is_noted_with_the_next_events_and_the_log_goes_when_all_is(
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

    for root, kept, over in Bench(below, nothing, write).states():
        promised = {"one"} if len(kept) == 1 else set[str]()
        gone = {"one"} if len(kept) > 2 else set[str]()
        judge_events(root, promised, gone | {"two"} if over else gone)


def test_a_log_of_events_is_written_anew_without_losing_one(
    below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catena.minion.event_log.WASTE_BYTES", 200)

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

    for root, kept, over in Bench(below, four_events, write).states():
        stored = {"old", "one", "two", "three"}
        judge_events(root, {"four", "five"} if over else {"four"}, stored if kept[1:] else set())


def test_a_torn_log_of_events_is_mended_without_losing_one(below: Path) -> None:
    def torn(root: Path) -> None:
        log = EventLog(root, lambda: 7.0)
        log.add(an_event("one"))
        log.commit()
        log.close(0.0)
        with (root / "outbox" / "events.log").open("ab") as stream:
            stream.write(b"\0\0\0\x40torn")

    def write(root: Path) -> Iterator[str]:
        log = EventLog(root, lambda: 7.0)
        log.add(an_event("two"))
        log.commit()
        yield "two"

    for root, kept, _ in Bench(below, torn, write).states():
        judge_events(root, {"one", *kept}, set())

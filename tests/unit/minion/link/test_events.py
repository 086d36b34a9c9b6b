from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from catena.core.clock import SystemClock
from catena.core.errors import LimitError
from catena.master.minions.limits import RateLimit
from catena.minion.link import event_log
from catena.minion.link.event_log import EventLog
from catena.minion.link.events import TOGETHER, TOGETHER_SECONDS, Events
from catena.minion.link.outbox import Outbox
from catena.minion.log import Log
from catena.minion.records.record_file import RecordFile
from catena.transport import wire
from catena.transport.messages import EventFired


class Bench:
    """Events with an outbox that is connected to a master that takes all and answers nothing."""

    def __init__(self, cache: Path) -> None:
        self.said: list[str] = []
        self.told: list[Exception | None] = []
        self.outbox = Outbox()
        self.outbox.connected(0.0)
        log = Log(os.open(os.devnull, os.O_WRONLY), "info", SystemClock())
        kept = EventLog(cache, lambda: 7.0)
        self.events = Events(kept, self.outbox, self._send, log)
        self.events.connected(0, 0.0)
        self.cache = cache

    def _send(self, packed: wire.Packed) -> bool:
        message = wire.unpack(wire.pack(packed), socket="control", receiver="master").message
        self.said.append(message.event_id)
        return True

    def fire(self, *names: str) -> None:
        for name in names:
            self.events.fired(EventFired(name, "a/tag", {}), b"", self.told.append)

    def turn(self, now: float) -> None:
        self.events.keep(now)
        self.events.service(now)
        self.outbox.service(now)


def test_who_fires_is_answered_when_it_is_kept_and_not_before(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fire("a", "b")
    assert bench.told == [] and bench.events.next_due() == 0.0
    bench.events.keep(0.0)
    assert bench.told == [None, None]
    assert EventLog(tmp_path, lambda: 7.0).keys() == ["a", "b"]


def test_the_first_is_told_at_once_and_more_together_when_the_master_has_answered(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    bench.fire("a")
    bench.turn(0.0)
    for name in "bcd":
        bench.fire(name)
        bench.turn(0.0)
    assert bench.said == ["a"] and bench.events.next_due() == TOGETHER_SECONDS
    bench.events.stored("a", 0.001)
    bench.turn(0.001)
    assert bench.said == ["a", "b", "c", "d"]


def test_a_master_that_is_slow_to_answer_is_told_all_the_same(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fire("a")
    bench.turn(0.0)
    bench.fire("b")
    bench.turn(0.0)
    bench.turn(TOGETHER_SECONDS)
    assert bench.said == ["a", "b"]
    many = [f"more{number}" for number in range(TOGETHER)]
    for name in many:
        bench.fire(name)
        bench.turn(1.0)
    assert bench.said[2:] == many[: len(bench.said) - 2] and len(bench.outbox) == 2 + TOGETHER


def test_an_event_that_comes_twice_is_kept_once_and_answered_twice(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fire("a", "a")
    bench.turn(0.0)
    bench.fire("a")
    bench.turn(0.0)
    assert bench.told == [None, None, None] and bench.said == ["a"]


def test_a_full_disk_is_told_to_who_fires_and_to_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)

    def full(handle: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    bench.fire("a", "b")
    with monkeypatch.context() as patch:
        patch.setattr(RecordFile, "add", full)
        bench.turn(0.0)
    assert [isinstance(fault, OSError) for fault in bench.told] == [True, True]
    assert bench.said == [] and len(bench.outbox) == 0
    bench.fire("a")
    bench.turn(1.0)
    assert bench.told[2] is None and bench.said == ["a"]


def test_one_too_many_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "EVENT_LIMIT", 1)
    bench = Bench(tmp_path)
    bench.fire("a")
    with pytest.raises(LimitError):
        bench.fire("b")
    bench.turn(0.0)
    assert bench.told == [None] and bench.said == ["a"]


def test_what_an_earlier_agent_kept_is_told(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.fire(*"abc")
    first.events.keep(0.0)
    second = Bench(tmp_path)
    second.events.recover()
    second.turn(0.0)
    assert second.said == ["a", "b", "c"]


def test_a_damaged_event_is_given_up_and_the_next_one_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fire("a", "b")
    bench.events.keep(0.0)
    path = tmp_path / "outbox" / "events.log"
    path.write_bytes(path.read_bytes().replace(b"a/tag", b"a/bad", 1))
    bench.turn(0.0)
    assert bench.said == ["b"] and len(bench.outbox) == 1
    assert EventLog(tmp_path, lambda: 7.0).keys() == ["b"]


@pytest.mark.parametrize("rate", [1, 5, 200])
def test_a_minion_with_much_to_tell_is_never_over_the_rate_of_its_master(
    tmp_path: Path, rate: int
) -> None:
    bench = Bench(tmp_path)
    clock = [0.0]
    limit = RateLimit(rate, 2 * rate, lambda: clock[0])
    names = [f"e{number}" for number in range(10 * rate)]
    bench.fire(*names)
    bench.events.connected(rate, 0.0)
    taken: list[str] = []
    for turn in range(100_000):
        bench.turn(clock[0])
        if turn == 50:
            # What was said is lost with the connection, and said once more.
            bench.events.lost()
            bench.outbox.lost()
            assert [limit.allow("me") for _ in bench.said].count(False) == 0
            bench.said.clear()
            bench.events.connected(rate, clock[0])
            bench.outbox.connected(clock[0])
        elif turn % 3 == 0:
            for name in bench.said:
                assert limit.allow("me")
                bench.events.stored(name, clock[0])
            taken += bench.said
            bench.said.clear()
        if len(taken) == len(names):
            break
        clock[0] += 0.01
    assert sorted(taken) == sorted(names)
    assert clock[0] >= 8.0


def test_what_is_fired_without_a_master_waits_and_nobody_is_woken_for_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.events.lost()
    bench.fire("a")
    bench.turn(1.0)
    assert bench.said == [] and bench.events.next_due() is None
    bench.events.connected(5, 2.0)
    assert bench.events.next_due() == 2.0
    bench.turn(2.0)
    assert bench.said == ["a"]

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


def test_sender_is_answered_only_after_its_event_is_durable(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fire("a", "b")
    assert bench.told == [] and bench.events.next_due() == 0.0
    bench.events.keep(0.0)
    assert bench.told == [None, None]
    assert EventLog(tmp_path, lambda: 7.0).keys() == ["a", "b"]


def test_first_event_is_sent_at_once_and_later_ones_together_after_the_answer(
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


def test_events_are_sent_to_a_master_that_answers_slowly(tmp_path: Path) -> None:
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


def test_repeated_event_is_stored_once_and_answered_each_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fire("a", "a")
    bench.turn(0.0)
    bench.fire("a")
    bench.turn(0.0)
    assert bench.told == [None, None, None] and bench.said == ["a"]


def test_full_disk_is_reported_only_to_the_sender(
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


def test_event_over_the_limit_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "EVENT_LIMIT", 1)
    bench = Bench(tmp_path)
    bench.fire("a")
    with pytest.raises(LimitError):
        bench.fire("b")
    bench.turn(0.0)
    assert bench.told == [None] and bench.said == ["a"]


def test_events_kept_by_an_earlier_agent_are_sent(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.fire(*"abc")
    first.events.keep(0.0)
    second = Bench(tmp_path)
    second.events.recover()
    second.turn(0.0)
    assert second.said == ["a", "b", "c"]


def test_damaged_event_is_dropped_and_the_next_one_is_sent(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fire("a", "b")
    bench.events.keep(0.0)
    path = tmp_path / "outbox" / "events.log"
    path.write_bytes(path.read_bytes().replace(b"a/tag", b"a/bad", 1))
    bench.turn(0.0)
    assert bench.said == ["b"] and len(bench.outbox) == 1
    assert EventLog(tmp_path, lambda: 7.0).keys() == ["b"]


@pytest.mark.parametrize("rate", [1, 5, 200])
def test_many_events_never_exceed_the_rate_limit_of_the_master(tmp_path: Path, rate: int) -> None:
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


def test_event_fired_without_a_master_waits_without_a_timer(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.events.lost()
    bench.fire("a")
    bench.turn(1.0)
    assert bench.said == [] and bench.events.next_due() is None
    bench.events.connected(5, 2.0)
    assert bench.events.next_due() == 2.0
    bench.turn(2.0)
    assert bench.said == ["a"]

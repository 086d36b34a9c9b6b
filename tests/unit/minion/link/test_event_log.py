from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from catena.core.errors import LimitError
from catena.core.ids import BadNameError
from catena.minion.link import event_log
from catena.minion.link.event_log import SETTLE_SECONDS, EventLog
from catena.transport import wire
from catena.transport.messages import EventFired


def event(number: int, fill: int = 0) -> EventFired:
    return EventFired(f"{number:032x}", "my/tag", {"number": number, "fill": "x" * fill})


def filled(cache: Path, count: int, fill: int = 0) -> EventLog:
    log = EventLog(cache, lambda: 7.0)
    for number in range(count):
        assert log.add(event(number, fill))
    assert log.commit() == [event(number).event_id for number in range(count)]
    return log


def size(cache: Path) -> int:
    return (cache / "outbox" / "events.log").stat().st_size


def test_events_are_kept_in_order_until_they_are_stored(tmp_path: Path) -> None:
    log = filled(tmp_path, 12)
    assert not log.add(event(3))
    again = EventLog(tmp_path, lambda: 7.0)
    assert again.keys() == [event(number).event_id for number in range(12)]
    kept = again.read(event(5).event_id)
    assert kept is not None and kept.body == wire.pack_body(event(5))
    assert wire.unpack(wire.pack(kept), socket="control", receiver="master").message == event(5)
    again.remove(event(5).event_id, 0.0)
    assert again.read(event(5).event_id) is None
    again.settle(SETTLE_SECONDS)
    assert len(EventLog(tmp_path, lambda: 7.0).keys()) == 11


def test_many_events_need_one_fsync_and_stored_ones_need_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, 1)
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    monkeypatch.setattr(os, "fsync", synced.append)
    for number in range(1, 100):
        log.add(event(number))
    log.commit()
    assert len(synced) == 1
    for number in range(99):
        log.remove(event(number).event_id, 0.0)
        log.settle(SETTLE_SECONDS / 2)
    assert len(synced) == 1 and log.next_due() == SETTLE_SECONDS
    log.commit()
    assert len(synced) == 1


def test_event_log_file_is_removed_when_no_event_waits(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    for number in range(2):
        log.remove(event(number).event_id, 10.0)
    log.settle(10.0)
    assert size(tmp_path)
    log.settle(10.0 + SETTLE_SECONDS)
    assert list((tmp_path / "outbox").iterdir()) == [] and log.next_due() is None
    log.add(event(2))
    assert log.commit() == EventLog(tmp_path, lambda: 7.0).keys() == [event(2).event_id]


def test_closed_event_log_has_recorded_the_stored_events(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    log.remove(event(0).event_id, 0.0)
    log.close(0.1)
    assert EventLog(tmp_path, lambda: 7.0).keys() == [event(1).event_id]


def test_event_log_with_mostly_stored_events_is_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "WASTE_BYTES", 10_000)
    log = filled(tmp_path, 1)
    for number in range(1, 200):
        log.add(event(number, 500))
        log.commit()
        log.remove(event(number).event_id, 0.0)
        log.settle(0.0)
        assert size(tmp_path) < 12_000
    log.settle(SETTLE_SECONDS)
    assert log.keys() == EventLog(tmp_path, lambda: 7.0).keys() == [event(0).event_id]
    assert log.read(event(0).event_id) is not None


def test_event_refused_by_a_full_disk_does_not_corrupt_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, 1)

    write, room = os.write, [10]

    def into_little(handle: int, data: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, bytes(data)[: room.pop()])

    log.add(event(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", into_little)
        with pytest.raises(OSError, match="space"):
            log.commit()
    assert log.keys() == EventLog(tmp_path, lambda: 7.0).keys() == [event(0).event_id]
    log.add(event(1))
    log.commit()
    assert EventLog(tmp_path, lambda: 7.0).keys() == [event(0).event_id, event(1).event_id]


def test_event_stored_by_the_master_before_it_was_logged_is_not_logged(tmp_path: Path) -> None:
    log = filled(tmp_path, 1)
    log.add(event(1))
    log.remove(event(1).event_id, 0.0)
    assert log.commit() == [] and log.keys() == [event(0).event_id]


def test_torn_end_of_an_event_log_is_ignored(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    with (tmp_path / "outbox" / "events.log").open("ab") as stream:
        stream.write(b"\0\0\0\x10half")
    (tmp_path / "outbox" / ".events.log.new").write_bytes(b"half")
    log = EventLog(tmp_path, lambda: 7.0)
    assert log.keys() == [event(number).event_id for number in range(2)]
    log.add(event(2))
    log.commit()
    assert len(EventLog(tmp_path, lambda: 7.0).keys()) == 3
    assert len(list((tmp_path / "outbox").iterdir())) == 1


def test_damaged_event_does_not_affect_the_others(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    path = tmp_path / "outbox" / "events.log"
    whole = path.read_bytes()
    at = whole.index(event(1).event_id.encode()) + 40
    path.write_bytes(whole[:at] + b"!" + whole[at + 1 :])
    log = EventLog(tmp_path, lambda: 7.0)
    assert log.keys() == [event(0).event_id, event(2).event_id] and log.damaged == 1


def test_events_of_an_older_agent_are_sent_first_and_removed_when_stored(
    tmp_path: Path,
) -> None:
    filled(tmp_path, 1)
    folder = tmp_path / "outbox"
    for number in (7, 8):
        path = folder / f"{number:012d}-{event(number).event_id}"
        path.write_bytes(wire.pack_body(event(number)))
    (folder / ".000000000009-abc.77.new").write_bytes(b"half")
    log = EventLog(tmp_path, lambda: 7.0)
    assert log.keys() == [event(number).event_id for number in (7, 8, 0)]
    assert not log.add(event(7))
    kept = log.read(event(7).event_id)
    assert kept is not None and kept.body == wire.pack_body(event(7))
    for number in (7, 8, 0):
        log.remove(event(number).event_id, 0.0)
    log.settle(SETTLE_SECONDS)
    assert list(folder.iterdir()) == []


def test_event_that_can_not_travel_is_refused_at_once(tmp_path: Path) -> None:
    log = EventLog(tmp_path, lambda: 7.0)
    with pytest.raises(LimitError):
        log.add(EventFired("a", "t", {"x": "y" * 300_000}))
    with pytest.raises(BadNameError):
        log.add(EventFired("../../etc/x", "t", {}))
    assert log.commit() == log.keys() == []


def test_number_of_waiting_events_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "EVENT_LIMIT", 2)
    log = filled(tmp_path, 2)
    with pytest.raises(LimitError, match="2 events already wait"):
        log.add(event(2))

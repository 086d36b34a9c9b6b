"""Returns that are damaged after they were stored durably."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catena.core import records
from catena.core.clock import ManualClock
from catena.core.job import JobReturn, JobSpec
from catena.minion.jobs.returns import SMALL_BYTES, ReturnSender
from catena.minion.jobs.store import LOGGED_BYTES, JobStore
from catena.minion.log import Log
from catena.runtime.damage import known
from catena.transport import wire
from catena.transport.messages import JobReturned

JID = "20260101000000000001"
LARGE = "x" * (2 * SMALL_BYTES)
MEDIUM = "x" * (LOGGED_BYTES + 1000)


class Link:
    """Accepts every message."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, socket: str, message: Any) -> bool:
        self.sent.append(message)
        return True

    @property
    def value(self) -> Any:
        (message,) = self.sent
        body = message if isinstance(message, JobReturned) else message.body
        if isinstance(body, JobReturned):
            return body.ret.value
        return records.decode(
            JobReturned, wire.unpack_body(body, wire.Limit(10_000_000))
        ).ret.value


def a_link() -> Any:
    return Link()


@pytest.fixture
def sender(tmp_path: Path) -> ReturnSender:
    log = Log.open(str(tmp_path / "log"), "info", ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    return ReturnSender(log, lambda: 7.0)


def stored(cache: Path, value: str) -> JobStore:
    store = JobStore(cache, "boot")
    store.add(JobSpec(JID, "cmd.run", ("x",)))
    body = wire.pack_body(JobReturned(JobReturn(JID, "cmd.run", ("x",), True, 0, value, 1.0, 1.0)))
    store.folder(JID).finish(body)
    store.keep_return(store.folder(JID))
    return store


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("value", [MEDIUM, LARGE])
@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_lost_return_is_replaced_by_the_reason(
    tmp_path: Path, sender: ReturnSender, value: str, damage: Callable[[Path], None]
) -> None:
    store, link = stored(tmp_path / "c", value), a_link()
    damage(store.folder(JID).return_path)
    assert sender.say(store, JID, link)
    assert "its return was lost on this minion" in link.value
    assert len(known(tmp_path / "c")) == (damage is flip)
    # The reason is durable: an agent that starts now sends the same.
    again = a_link()
    after = JobStore(tmp_path / "c", "boot")
    after.scan()
    assert sender.say(after, JID, again)
    assert again.value == link.value
    assert (tmp_path / "log").read_text().count("its return is lost") == 1


@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_large_return_that_is_damaged_between_two_attempts_is_replaced_by_the_reason(
    tmp_path: Path, sender: ReturnSender, damage: Callable[[Path], None]
) -> None:
    store, link = stored(tmp_path / "c", LARGE), a_link()
    assert sender.say(store, JID, link)
    damage(store.folder(JID).return_path)
    link.sent.clear()
    assert sender.say(store, JID, link)
    assert "its return was lost on this minion" in link.value


def test_return_with_a_damaged_record_is_sent_from_its_folder(
    tmp_path: Path, sender: ReturnSender
) -> None:
    store, link = stored(tmp_path / "c", "said"), a_link()
    store.logged_return(JID)
    flip(tmp_path / "c" / "jobs.log")
    assert sender.say(store, JID, link)
    assert link.value == "said"


def test_return_stays_if_the_agent_has_too_many_open_files(
    tmp_path: Path, sender: ReturnSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, link = stored(tmp_path / "c", MEDIUM), a_link()

    def refuse(*_: object) -> bytes:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("catena.minion.jobs.folder.read_limited", refuse)
        assert sender.say(store, JID, link)
    assert link.sent == [] and not known(tmp_path / "c")
    assert sender.say(store, JID, link)
    assert link.value == MEDIUM

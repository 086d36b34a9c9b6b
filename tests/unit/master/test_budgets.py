"""Rates, pieces of returns, uploaded files, sizes of batches, the life of a delivery."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catena.client.requests.blobs import BlobPut
from catena.core.clock import ManualClock
from catena.core.errors import LimitError, UsageError
from catena.core.fsm import Kind
from catena.core.job import JobReturn
from catena.master.jobs import batch
from catena.master.jobs.delivery import MACHINE, OPEN, Delivery, DeliveryEvent
from catena.master.jobs.part_buffer import PartBuffer
from catena.master.minions.limits import RateLimit
from catena.master.requests.blobs import BadBlobError, Blobs
from catena.transport.messages import ReturnPart
from catena.transport.return_parts import join_return, split_return

START = datetime(2026, 3, 1, tzinfo=UTC)


def a_return(size: int) -> JobReturn:
    return JobReturn("20260301120000000000", "f", (), True, 0, "x" * size, 0.0, 0.0)


def test_rate_limit_gives_a_burst_then_its_rate_and_each_name_its_own() -> None:
    clock = ManualClock(START)
    limit = RateLimit(2.0, 3.0, clock.monotonic)
    assert [limit.allow("a") for _ in range(4)] == [True, True, True, False]
    assert limit.allow("b")
    clock.advance(0.5)
    assert [limit.allow("a") for _ in range(2)] == [True, False]


def test_rate_limit_allows_a_cost_above_the_burst_once_the_bucket_is_full() -> None:
    clock = ManualClock(START)
    limit = RateLimit(2.0, 4.0, clock.monotonic)
    assert [limit.allow("a", 3.0) for _ in range(2)] == [True, False]
    assert limit.allow("a")
    clock.advance(2.0)
    assert limit.allow("a", 10.0)
    clock.advance(3.0)
    assert not limit.allow("a")
    clock.advance(0.5)
    assert limit.allow("a")


def test_return_is_joined_from_parts_in_any_order_with_duplicates() -> None:
    buffer = PartBuffer(10_000_000, ManualClock(START).monotonic)
    parts = split_return(a_return(2_000_000))
    assert len(parts) > 3
    for part in [*reversed(parts[1:]), parts[1]]:
        assert buffer.add("m1", part) is None
    whole = buffer.add("m1", parts[0])
    assert whole is not None
    assert join_return(whole, 10_000_000).ret == a_return(2_000_000)


def test_return_parts_of_two_minions_are_never_mixed() -> None:
    buffer = PartBuffer(10_000_000, ManualClock(START).monotonic)
    parts = split_return(a_return(1_000_000))
    assert [buffer.add("m1", part) for part in parts[:-1]] == [None] * (len(parts) - 1)
    assert buffer.add("evil", parts[-1]) is None


def test_minion_cant_keep_more_unfinished_than_its_budget() -> None:
    clock = ManualClock(START)
    buffer = PartBuffer(1_000_000, clock.monotonic)
    piece = b"x" * 400_000
    jids = [f"2026030112000000000{n}" for n in range(4)]
    for jid in jids[:2]:
        assert buffer.add("evil", ReturnPart(jid, "a" * 64, 0, 2, piece)) is None
    with pytest.raises(LimitError, match="unfinished"):
        buffer.add("evil", ReturnPart(jids[2], "a" * 64, 0, 2, piece))
    with pytest.raises(LimitError):
        buffer.add("evil", ReturnPart(jids[3], "a" * 64, 0, 1_000_000, b""))
    with pytest.raises(UsageError):
        buffer.add("evil", ReturnPart("../x", "a" * 64, 0, 2, b""))
    clock.advance(301.0)
    buffer.drop_idle()
    assert buffer.add("evil", ReturnPart(jids[2], "a" * 64, 0, 2, piece)) is None


def test_uploaded_file_is_kept_under_its_hash(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    data = b"#!/bin/sh\nexit 0\n"
    digest = hashlib.sha256(data).hexdigest()
    assert blobs.path(digest) is None
    assert blobs.put(BlobPut(digest, 1, 2, data[5:])) is False
    assert blobs.put(BlobPut(digest, 0, 2, data[:5])) is True
    assert blobs.put(BlobPut(digest, 0, 2, data[:5])) is True
    found = blobs.path(digest)
    assert found is not None
    assert found.read_bytes() == data
    assert found.stat().st_mode & 0o777 == 0o600


def test_unused_upload_is_deleted_after_a_day(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    old, wanted = (hashlib.sha256(data).hexdigest() for data in (b"old", b"wanted"))
    for digest, data in ((old, b"old"), (wanted, b"wanted")):
        assert blobs.put(BlobPut(digest, 0, 1, data))
        os.utime(tmp_path / "blobs" / digest, (1, 1))
    assert blobs.put(BlobPut(wanted, 0, 1, b"wanted"))
    blobs.sweep()
    assert blobs.path(old) is None
    assert blobs.path(wanted) is not None


@pytest.mark.parametrize("sha256", ["../../etc/passwd", "A" * 64, "a" * 63, ""])
def test_name_that_is_no_hash_reaches_no_file(tmp_path: Path, sha256: str) -> None:
    blobs = Blobs(tmp_path / "blobs")
    assert blobs.path(sha256) is None
    with pytest.raises(BadBlobError):
        blobs.put(BlobPut(sha256, 0, 1, b"x"))


def test_pieces_with_another_hash_are_thrown_away(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    with pytest.raises(BadBlobError, match="SHA-256"):
        blobs.put(BlobPut("a" * 64, 0, 1, b"x"))
    assert list((tmp_path / "blobs" / "partial").iterdir()) == []


def test_batch_is_a_number_or_a_share_and_at_least_one() -> None:
    assert [batch.size(text, 9) for text in ("", "3", "20%", "1%", "100%")] == [0, 3, 1, 1, 9]


def test_absent_minion_takes_no_place_in_a_batch() -> None:
    states = batch.first_states(["a", "b", "c"], 1, {"b", "c"})
    assert states == {"a": Delivery.held, "b": Delivery.queued, "c": Delivery.held}


def test_started_job_is_stored_as_sent_when_a_connection_takes_it() -> None:
    states = batch.first_states(["a", "b", "c"], 0, {"b", "c"}, {"b"})
    assert states == {"a": Delivery.queued, "b": Delivery.sent, "c": Delivery.queued}
    states = batch.first_states(["a", "b", "c"], 1, {"b", "c"}, {"b", "c"})
    assert states == {"a": Delivery.held, "b": Delivery.sent, "c": Delivery.held}


def test_ended_delivery_never_changes_its_state() -> None:
    ends = set(Delivery) - set(OPEN)
    assert ends == {
        Delivery.done, Delivery.rejected, Delivery.expired, Delivery.cancelled, Delivery.lost,
    }  # fmt: skip
    assert not any(MACHINE.allows(state, cause) for state in ends for cause in DeliveryEvent)
    assert all(MACHINE.states[state] is not Kind.final for state in OPEN)


def test_delivered_job_never_expires_by_itself() -> None:
    for state in (Delivery.sent, Delivery.received, Delivery.running):
        assert not MACHINE.allows(state, DeliveryEvent.expire)

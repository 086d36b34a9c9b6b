"""The master stays responsive and small under floods of requests."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import msgpack
import pytest

from catena.transport import wire
from catena.transport.messages import (
    TYPES,
    EventFired,
    Failure,
    JobReturned,
    PillarRequest,
    Ping,
    Pong,
    Refused,
    ReturnPart,
    ReturnStored,
    Welcome,
)
from tests.integration.security.hostile import PATIENCE_SECONDS, Hostile, SilenceError, Site

_numbers = itertools.count(1)
MIB = 1024 * 1024
DIGEST = "0" * 64


def seconds_of_a_ping(minion: Hostile) -> float:
    began = time.monotonic()
    assert isinstance(minion.ask(Ping(7)), Pong)
    return time.monotonic() - began


def a_while(minion: Hostile) -> float:
    """Return a second, or what some pings take on this machine at this hour."""
    return max(1.0, 50 * max(seconds_of_a_ping(minion) for _ in range(5)))


@pytest.fixture(autouse=True)
def serves_others(site: Site, victim: Hostile) -> Iterator[None]:
    """After every attack: alive, small, and quick for an honest minion."""
    before = site.memory_kib()
    quick = a_while(victim)
    yield
    assert seconds_of_a_ping(victim) < quick
    assert site.memory_kib() - before < 48 * 1024


@pytest.fixture
def flooder(site: Site) -> Iterator[Hostile]:
    """A minion whose connection may be cut: each test has one of its own."""
    number = next(_numbers)
    minion = site.stranger(f"flooder{number}")
    # The limit per address is not what is tried here.
    minion.address = f"127.0.1.{number // 10 + 1}"
    assert isinstance(site.admit(minion), Welcome)
    yield minion
    minion.close()


@pytest.mark.parametrize(("socket", "size"), [("control", 40), ("bulk", 40), ("enrol", 1)])
def test_frame_above_the_socket_limit_ends_the_connection(
    flooder: Hostile, socket: str, size: int
) -> None:
    flooder.raw(bytes(size * MIB), socket=socket)
    with pytest.raises(SilenceError):
        flooder.ask(EventFired("after", "app/after", {}), socket, 1.0)


def test_frame_between_the_limits_of_wire_and_socket_is_answered(
    flooder: Hostile,
) -> None:
    msg_id = wire.new_id()
    flooder.raw(bytes([30, 1]) + msg_id + bytes(16) + bytes(900 * 1024))
    answer = flooder.answer(msg_id)
    assert isinstance(answer, Failure) and "the control socket takes" in answer.message


def test_multipart_message_ends_the_connection(flooder: Hostile) -> None:
    flooder.raw(*[bytes(MIB // 2)] * 100)
    assert flooder.is_deaf()


BODIES = {
    "nested lists": b"\x91" * 200_000 + b"\xc0",
    "nested maps": b"\x81\xa1a" * 60_000 + b"\xc0",
    "a list that claims 4e9 items": b"\xdd\xff\xff\xff\xff",
    "bytes that claim 4e9": b"\xc6\xff\xff\xff\xff",
    "250 000 empty maps": b"\xdd\x00\x03\xd0\x90" + b"\x80" * 250_000,
    "an extension": b"\xd4\x05x",
    "a time": msgpack.packb(msgpack.Timestamp(1)),
    "no text": b"\xa2\xff\xfe",
    "a list": msgpack.packb([1]),
    "another field": msgpack.packb({"event_id": "e", "tag": "t", "data": {}, "id": "victim"}),
    "a field too few": msgpack.packb({"event_id": "e", "tag": "t"}),
    "other types": msgpack.packb({"event_id": 1, "tag": [], "data": "x"}),
    "a list as key": b"\x81\x90\xc0",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
def test_malformed_body_is_answered_and_affects_nobody_else(flooder: Hostile, body: bytes) -> None:
    msg_id = wire.new_id()
    flooder.raw(bytes([30, 1]) + msg_id + bytes(16) + body)
    answer = flooder.answer(msg_id)
    assert isinstance(answer, Failure), answer
    flooder.ping()


@pytest.mark.parametrize("version", [0, 2, 255])
def test_other_wire_version_is_refused(flooder: Hostile, version: int) -> None:
    msg_id = wire.new_id()
    flooder.raw(bytes([13, version]) + msg_id + bytes(16) + msgpack.packb({"seq": 1}))
    answer = flooder.answer(msg_id)
    assert isinstance(answer, Failure) and "is not spoken here" in answer.message


def test_malformed_frames_disconnect_their_sender(flooder: Hostile) -> None:
    for _ in range(200):
        flooder.raw(b"\xff" * 40)
    assert flooder.is_deaf()


def test_messages_of_unknown_types_are_refused(flooder: Hostile) -> None:
    for number in {*range(256)} - {*TYPES}:
        flooder.raw(bytes([number, 1]) + bytes(32) + b"\x80")
    assert flooder.is_deaf()


def test_incomplete_returns_are_limited(flooder: Hostile) -> None:
    for number in range(100):
        part = ReturnPart(f"{20260101000000000000 + number}", DIGEST, 0, 8, b"")
        msg_id = flooder.say(part, "bulk")
        if number >= 64:
            answer = flooder.answer(msg_id, "bulk")
            assert isinstance(answer, Failure) and "unfinished returns" in answer.message


def test_return_parts_above_the_limit_are_dropped(flooder: Hostile) -> None:
    piece = bytes(wire.CHUNK_BYTES)
    answers = []
    for number in range(24):
        part = ReturnPart(f"{20260102000000000000 + number}", DIGEST, 0, 8, piece)
        msg_id = flooder.say(part, "bulk")
        if number >= 8:
            answers.append(flooder.answer(msg_id, "bulk"))
    assert {answer.code for answer in answers} == {"LimitError"}


def test_sessions_created_by_repeated_hellos_are_limited(site: Site, flooder: Hostile) -> None:
    for number in range(150):
        flooder.say(flooder.hello(session=f"s{number}", grains={"x": "y" * 100_000}))
    flooder.receive(Refused)
    flooder.ping()
    assert len(site.all_events(f"salt/minion/{flooder.name}/start")) <= 35


def test_excess_events_are_dropped(site: Site, evil: Hostile, victim: Hostile) -> None:
    quick = a_while(victim)
    for number in range(2000):
        evil.say(EventFired(f"storm{number}", "storm/x", {"n": number}))
    assert seconds_of_a_ping(victim) < quick
    evil.ask(EventFired("storm-end", "storm/x", {}))
    assert len(site.all_events("storm/x")) < 400


def test_returns_of_unknown_jobs_are_limited(site: Site, evil: Hostile) -> None:
    stored = 0
    for number in range(100):
        answer = evil.ask(JobReturned(evil.ret(f"{20250101000000000000 + number}")))
        stored += isinstance(answer, ReturnStored)
    assert 0 < stored <= 65


def test_pillar_requests_do_not_block_other_requests(evil: Hostile, victim: Hostile) -> None:
    for _ in range(300):
        evil.say(PillarRequest())
    began = time.monotonic()
    assert victim.ask(PillarRequest(), seconds=60).pillar
    assert time.monotonic() - began < 45.0
    later = [e.message for e in evil.heard.get("control", ()) if isinstance(e.message, Failure)]
    evil.until(lambda e: isinstance(e.message, Failure), "control", PATIENCE_SECONDS)
    assert all(failure.code == "TryLaterError" for failure in later)


def test_pending_keys_are_limited_by_address(site: Site) -> None:
    waiting = len(site.keys()["pending"])
    said = []
    for number in range(120):
        stranger = site.stranger(f"flood{number}")
        stranger.address = "127.0.0.66"
        said.append(str(stranger.enrol()))
        stranger.close()
    # Some a second are heard all the while: on a slow machine the last may be one of those.
    refused = sum("too many requests" in reason for reason in said)
    assert refused > 0, said[-5:]
    assert len(site.keys()["pending"]) - waiting <= len(said) - refused

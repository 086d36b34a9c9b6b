from __future__ import annotations

from typing import Any

import pytest
import zmq

from catena.core.errors import UnreachableError
from catena.core.peer import PeerCall, PeerKind
from catena.minion.link.relay import BULK_WINDOW, SECONDS, Relay
from catena.transport import wire
from catena.transport.messages import (
    ChunkReply,
    ChunkRequest,
    Envelope,
    Failure,
    FilePush,
    FileStored,
    PeerRequest,
    PillarReply,
    PillarRequest,
)
from catena.transport.sockets import SERVER_OPTIONS


class Link:
    def __init__(self) -> None:
        self.connected = True
        self.room = True
        self.sent: list[tuple[str, Any, bytes]] = []

    def send(
        self,
        socket_name: str,
        message: Any,
        reply_to: bytes = wire.ZERO,
        msg_id: bytes | None = None,
    ) -> bool:
        if self.room:
            self.sent.append((socket_name, message, msg_id or b""))
        return self.room


class Asker:
    def __init__(self) -> None:
        self.heard: list[tuple[Any, bytes]] = []

    def send(self, message: Any, reply_to: bytes) -> None:
        self.heard.append((message, reply_to))


def asked(message: Any, number: int = 1) -> Envelope:
    return Envelope(bytes([number]) * 16, wire.ZERO, message)


def chunk(number: int) -> Envelope:
    return asked(ChunkRequest("base", "a", "0" * 64, number), number)


def reply(message: Any, to: bytes) -> Envelope:
    return Envelope(wire.new_id(), to, message)


def test_answer_reaches_the_caller_under_its_own_id() -> None:
    link, first, second = Link(), Asker(), Asker()
    relay = Relay(link)
    relay.ask(first, asked(PillarRequest(), 1), 0.0)
    relay.ask(second, asked(PillarRequest(), 2), 0.0)
    (_, _, id_1), (_, _, id_2) = link.sent
    assert relay.answer(reply(PillarReply({"n": 2}), id_2))
    assert relay.answer(reply(PillarReply({"n": 1}), id_1))
    assert first.heard == [(PillarReply({"n": 1}), bytes([1]) * 16)]
    assert second.heard == [(PillarReply({"n": 2}), bytes([2]) * 16)]
    assert not relay.answer(reply(PillarReply({}), id_1)), "an answer counts once"


def test_caller_gets_an_error_at_once_without_a_master() -> None:
    link = Link()
    link.connected = False
    with pytest.raises(UnreachableError):
        Relay(link).ask(Asker(), asked(PillarRequest()), 0.0)


def test_bulk_requests_stay_within_their_window() -> None:
    link, asker = Link(), Asker()
    relay = Relay(link)
    for number in range(1, BULK_WINDOW + 4):
        relay.ask(asker, chunk(number), 0.0)
    assert len(link.sent) == BULK_WINDOW and relay.waiting
    relay.answer(reply(ChunkReply("0" * 64, 1, b"x"), link.sent[0][2]))
    relay.service(0.0)
    assert len(link.sent) == BULK_WINDOW + 1


def test_lost_bulk_connection_resends_and_a_lost_control_connection_fails() -> None:
    link, asker = Link(), Asker()
    relay = Relay(link)
    relay.ask(asker, chunk(1), 0.0)
    relay.ask(asker, asked(PillarRequest(), 2), 0.0)
    relay.lost("bulk")
    relay.service(0.0)
    assert [name for name, _, _ in link.sent] == ["bulk", "control", "bulk"]
    assert not relay.answer(reply(ChunkReply("0" * 64, 1, b"x"), link.sent[0][2]))
    relay.lost("control")
    assert {type(message) for message, _ in asker.heard} == {Failure}
    assert len(relay) == 0


def test_silent_master_gives_an_error_answer() -> None:
    link, asker = Link(), Asker()
    relay = Relay(link)
    relay.ask(asker, asked(PillarRequest()), 0.0)
    relay.service(SECONDS + 1)
    ((failure, _),) = asker.heard
    assert failure.code == "TryLaterError" and len(relay) == 0


def test_full_link_only_delays_a_request() -> None:
    link, asker = Link(), Asker()
    relay = Relay(link)
    link.room = False
    relay.ask(asker, chunk(1), 0.0)
    assert relay.waiting and not asker.heard
    link.room = True
    relay.service(1.0)
    assert len(link.sent) == 1 and not relay.waiting


def test_caller_that_disconnected_is_forgotten() -> None:
    link, asker = Link(), Asker()
    relay = Relay(link)
    relay.ask(asker, asked(PillarRequest()), 0.0)
    relay.gone(asker)
    assert len(relay) == 0 and not relay.answer(reply(PillarReply({}), link.sent[0][2]))


def test_pushed_file_chunk_is_answered_when_the_master_has_stored_it() -> None:
    link, asker = Link(), Asker()
    relay = Relay(link)
    relay.ask(asker, asked(FilePush("a", "0" * 64, 0, 1, b"x")), 0.0)
    assert asker.heard == []
    stored = FileStored("a", "0" * 64, True)
    assert relay.answer(reply(stored, link.sent[0][2]))
    assert asker.heard == [(stored, bytes([1]) * 16)]


def test_call_through_the_master_fails_when_the_connection_breaks() -> None:
    # It is not repeated: the master may have carried it out.
    link, asker = Link(), Asker()
    relay = Relay(link)
    relay.ask(asker, asked(PeerRequest(PeerCall(PeerKind.runner, "manage.up"))), 0.0)
    relay.lost("control")
    assert len(relay) == 0 and isinstance(asker.heard[0][0], Failure)


def test_answers_to_all_open_requests_fit_the_masters_queue() -> None:
    room = SERVER_OPTIONS["bulk"][zmq.SNDHWM]
    # libzmq (pipe.cpp) tells the writer of what was read by half a queue at a time.
    untold = (room + 1) // 2 - 1
    word = 1  # a heartbeat's answer, or that of a return in pieces
    assert BULK_WINDOW + untold + word <= room

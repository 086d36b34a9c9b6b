"""The dispatcher's table, rights, and that every minion message has a handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from catena.client.requests import VERBS, KeyList, RunJob
from catena.core.clock import SystemClock
from catena.core.errors import NotAllowedError, NotFoundError, RecordError, UsageError
from catena.master.gate.minion_gate import MinionGate
from catena.master.requests import rights
from catena.master.requests.dispatcher import RIGHTS, Dispatcher, End
from catena.master.requests.once import RequestLog
from catena.master.requests.rights import LocalUsers, Right
from catena.transport.local import LocalPeer
from catena.transport.local_server import LocalConnection
from catena.transport.messages import ALLOWED, ClientItem, ClientReply, ClientRequest, Envelope

ROOT = LocalPeer(0, 0, 1)
STRANGER = LocalPeer(64999, 64999, 1)


class Connection:
    def __init__(self, peer: LocalPeer) -> None:
        self.peer = peer
        self.sent: list[Any] = []

    async def send(self, message: Any, reply_to: bytes = b"") -> None:
        self.sent.append(message)


async def answer(caller: rights.Caller, record: Any) -> Any:
    return {"user": caller.name, "record": type(record).__name__}


async def stream(caller: rights.Caller, record: Any) -> AsyncIterator[Any]:
    yield 1
    yield 2
    yield End("end")


class NoStore:
    async def read(self, fn: Any) -> Any:
        raise AssertionError("a request without a key is looked up")


def requests() -> RequestLog:
    return RequestLog(NoStore(), SystemClock())


def dispatcher(**handlers: Any) -> Dispatcher:
    table = dict.fromkeys(VERBS, answer) | {"event.watch": stream} | handlers
    return Dispatcher(table, LocalUsers(()), requests())


def ask(peer: LocalPeer, verb: str, params: dict[str, Any]) -> list[Any]:
    connection = Connection(peer)
    envelope = Envelope(b"i" * 16, bytes(16), ClientRequest(verb, params))
    asyncio.run(dispatcher().serve(cast(LocalConnection, connection), envelope))
    return connection.sent


def test_every_verb_has_a_right_and_none_is_left_over() -> None:
    assert RIGHTS.keys() == VERBS.keys()


def test_a_verb_without_a_handler_stops_the_start() -> None:
    with pytest.raises(NotFoundError, match=r"job\.run"):
        Dispatcher(
            {name: answer for name in VERBS if name != "job.run"}, LocalUsers(()), requests()
        )


def test_root_is_answered_under_its_name() -> None:
    assert ask(ROOT, "key.list", {}) == [ClientReply({"user": "root", "record": "KeyList"})]


def test_a_stream_ends_with_its_reply() -> None:
    assert ask(ROOT, "event.watch", {}) == [ClientItem(1), ClientItem(2), ClientReply("end")]


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_stranger_may_do_nothing(verb: str) -> None:
    with pytest.raises(NotAllowedError, match="lacks the right"):
        ask(STRANGER, verb, {})
    assert not LocalUsers(()).allows(STRANGER)


def test_users_of_the_setting_are_let_in_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "user_name", lambda uid: "anna" if uid == 64999 else "other")
    assert LocalUsers(["anna"]).caller(STRANGER).rights == frozenset(Right)
    assert not LocalUsers(["bert"]).allows(STRANGER)


@pytest.mark.parametrize("verb", ["job.runn", "", "__class__", "_begin"])
def test_an_unknown_verb_is_named_with_the_nearest(verb: str) -> None:
    with pytest.raises(NotFoundError, match="unknown request"):
        ask(ROOT, verb, {})


def test_fields_that_a_verb_does_not_have_are_refused() -> None:
    with pytest.raises(RecordError, match="user"):
        ask(ROOT, "key.list", {"user": "root"})


def test_only_the_reactor_asks_from_inside_and_never_a_stream() -> None:
    async def scenario() -> None:
        inside = dispatcher()
        assert await inside.ask("Reactor", "key.list", KeyList()) == {
            "user": "Reactor",
            "record": "KeyList",
        }
        with pytest.raises(UsageError):
            await inside.ask("root", "key.list", KeyList())
        with pytest.raises(UsageError):
            await inside.ask("Reactor", "job.run", RunJob("*", "test.ping", follow=True))

    asyncio.run(scenario())


def test_every_message_that_a_minion_may_send_has_a_handler() -> None:
    class Parts:
        return_limit_bytes = 1
        events_per_second = 1

        class clock:  # noqa: N801
            monotonic = staticmethod(lambda: 0.0)

    gate = MinionGate(cast(Any, Parts))
    expected = {
        kind for socket in ("control", "bulk", "enrol") for kind in ALLOWED[socket, "master"]
    }
    assert {kind.__name__ for kind in gate.handled()} == expected

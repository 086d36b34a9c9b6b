"""The dispatcher's table, rights, and that every minion message has a handler."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from catena.client.requests import contracts, events, jobs, keys, runners
from catena.client.requests.events import EventWatch
from catena.client.requests.jobs import RunJob
from catena.client.requests.keys import KeyList
from catena.client.requests.runners import RunnerCall
from catena.core.clock import SystemClock
from catena.core.errors import NotAllowedError, NotFoundError, RecordError, UsageError
from catena.master.gate.minion_gate import MinionGate
from catena.master.requests import rights, unix_front_end
from catena.master.requests import verb as verb_module
from catena.master.requests.dispatcher import Dispatcher
from catena.master.requests.once import RequestLog
from catena.master.requests.reactor_front_end import ReactorFrontEnd
from catena.master.requests.rights import Caller, Right
from catena.master.requests.unix_front_end import LocalUsers, UnixFrontEnd
from catena.master.requests.verb import End, Verb, table, verb
from catena.transport.local import LocalPeer
from catena.transport.local_server import LocalConnection
from catena.transport.messages import ALLOWED, ClientItem, ClientReply, ClientRequest, Envelope

MASTER = Path(__file__).parents[4] / "master"

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
    made = dict.fromkeys(contracts(), answer) | {"event.watch": stream} | handlers
    verbs = {
        name: Verb(contracts()[name], Right.read_keys, handler) for name, handler in made.items()
    }
    return Dispatcher(verbs, requests())


async def ask(peer: LocalPeer, verb: str, params: dict[str, Any]) -> list[Any]:
    connection = Connection(peer)
    envelope = Envelope(b"i" * 16, bytes(16), ClientRequest(verb, params))
    front_end = UnixFrontEnd(dispatcher(), LocalUsers(()))
    await front_end.serve(cast(LocalConnection, connection), envelope)
    return connection.sent


class KeyLister:
    @verb(keys.LIST, Right.read_keys)
    async def list(self, caller: Caller, asked: KeyList) -> Any:
        return caller.name


def test_handlers_name_the_types_of_their_replies() -> None:
    # mypy compares them with the contract; Any would fit each.
    found = [
        (path.name, node.name, ast.unparse(node.returns) if node.returns else "Any")
        for path in sorted(MASTER.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and any(ast.unparse(one).startswith("verb(") for one in node.decorator_list)
    ]
    assert len(found) == len(contracts())
    assert [one for one in found if "Any" in one[2]] == []


def test_table_refuses_contracts_without_a_handler() -> None:
    with pytest.raises(NotFoundError, match=r"without a handler: .*'job\.run'"):
        table([KeyLister()])


def test_table_refuses_a_handler_without_a_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb_module, "contracts", dict)
    with pytest.raises(NotFoundError, match=r"without a contract: \['key\.list'\]"):
        table([KeyLister()])


def test_table_refuses_two_handlers_of_one_verb() -> None:
    with pytest.raises(UsageError, match=r"two handlers of the verb key\.list"):
        table([KeyLister(), KeyLister()])


def test_table_refuses_a_handler_without_a_right() -> None:
    class Rightless:
        @verb(keys.LIST, cast(Right, None))
        async def list(self, caller: Caller, asked: KeyList) -> Any:
            return None

    with pytest.raises(UsageError, match=r"key\.list names no right"):
        table([Rightless()])


async def test_table_gives_each_verb_its_right_and_its_bound_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verb_module, "contracts", lambda: {"key.list": keys.LIST})
    found = table([KeyLister()])["key.list"]
    assert (found.ask, found.right) == (keys.LIST, Right.read_keys)
    assert await cast(Any, found.handler(Caller("anna", ()), KeyList())) == "anna"


async def test_root_is_answered_under_its_name() -> None:
    assert await ask(ROOT, "key.list", {}) == [ClientReply({"user": "root", "record": "KeyList"})]


async def test_stream_ends_with_its_reply() -> None:
    assert await ask(ROOT, "event.watch", {}) == [ClientItem(1), ClientItem(2), ClientReply("end")]


@pytest.mark.parametrize("name", sorted(contracts()))
async def test_unauthenticated_caller_may_do_nothing(name: str) -> None:
    with pytest.raises(NotAllowedError, match="lacks the right"):
        await ask(STRANGER, name, {})
    assert not LocalUsers(()).allows(STRANGER)


def test_users_of_the_setting_are_let_in_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        unix_front_end, "user_name", lambda uid: "anna" if uid == 64999 else "other"
    )
    assert LocalUsers(["anna"]).caller(STRANGER).rights == frozenset(Right)
    assert not LocalUsers(["bert"]).allows(STRANGER)


@pytest.mark.parametrize("verb", ["job.runn", "", "__class__", "_begin"])
async def test_unknown_verb_is_named_with_the_nearest(verb: str) -> None:
    with pytest.raises(NotFoundError, match="unknown request"):
        await ask(ROOT, verb, {})


async def test_fields_that_a_verb_does_not_have_are_refused() -> None:
    with pytest.raises(RecordError, match="user"):
        await ask(ROOT, "key.list", {"user": "root"})


async def test_reactor_calls_under_its_own_name_and_never_requests_a_stream() -> None:
    front_end = ReactorFrontEnd(dispatcher(**{"job.run": stream}))
    reply = await front_end.ask(runners.CALL, RunnerCall("manage.up"))
    assert reply == {"user": "Reactor", "record": "RunnerCall"}
    with pytest.raises(UsageError, match="streams"):
        await front_end.ask(jobs.RUN, RunJob("*", "test.ping", follow=True))
    with pytest.raises(UsageError, match="streams"):
        await front_end.ask(events.WATCH, EventWatch())


def test_dispatcher_imports_no_transport() -> None:
    code = "import sys, catena.master.requests.dispatcher; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith("catena.transport")]


def test_every_message_that_a_minion_may_send_has_a_handler() -> None:
    class Parts:
        return_limit_bytes = 1
        events_per_second = 1
        output_per_second = 1

        class clock:  # noqa: N801
            monotonic = staticmethod(lambda: 0.0)

    gate = MinionGate(cast(Any, Parts))
    expected = {
        kind for socket in ("control", "bulk", "enrol") for kind in ALLOWED[socket, "master"]
    }
    assert {kind.__name__ for kind in gate.handled()} == expected

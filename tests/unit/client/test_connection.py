"""What a client does when the answer to a request is lost, against a scripted server."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from catena.client import repeat
from catena.client.aio import AsyncMasterClient
from catena.client.connection import MasterClient
from catena.client.replies.jobs import JobNewItem
from catena.client.requests import events, jobs, keys
from catena.client.requests.events import EventSend
from catena.client.requests.jobs import RunJob
from catena.client.requests.keys import KeyList
from catena.core.errors import NotFoundError, PeerError, UnreachableError, UsageError
from catena.transport import wire
from catena.transport.failures import failure_of
from catena.transport.framing import FrameReader, frame
from catena.transport.local import LostAnswerError
from catena.transport.messages import ClientItem, ClientReply, ClientRequest, Envelope
from tests.support.waiting import PATIENCE_SECONDS

#: What the server does with one request: messages to answer with; None hangs up.
Answer = Callable[[ClientRequest], "list[Any] | None"]


class Server:
    """Serves one connection after the other, each request by the next of *answers*."""

    def __init__(self, path: Path, answers: list[Answer]) -> None:
        self.got: list[ClientRequest] = []
        self._answers = answers
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while self._answers:
            connection, _ = self._listener.accept()
            with connection:
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        reader = FrameReader()
        while self._answers:
            data = connection.recv(65536)
            if not data:
                return
            for raw in reader.feed(data):
                envelope: Envelope = wire.unpack(raw, socket="local", receiver="master")
                self.got.append(envelope.message)
                said = self._answers.pop(0)(envelope.message)
                if said is None:
                    return
                for message in said:
                    packed = wire.pack(message, msg_id=wire.new_id(), reply_to=envelope.msg_id)
                    connection.sendall(frame(packed))

    def end(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        self._listener.close()
        assert not self._thread.is_alive()


@contextmanager
def served(folder: Path, *answers: Answer) -> Iterator[tuple[Server, MasterClient, list[str]]]:
    told: list[str] = []
    server = Server(folder / "s", list(answers))
    yield server, MasterClient(folder / "s", 5.0, key="k", tell=told.append), told
    server.end()


def replies_with(value: Any) -> Answer:
    return lambda request: [ClientReply(value)]


def fails_with(error: Any) -> Answer:
    return lambda request: [failure_of(error)]


def hangs_up(request: ClientRequest) -> None:
    return None


@pytest.mark.parametrize("taken", [True, False])
def test_client_asks_for_a_lost_answer_and_resends_the_request(
    tmp_path: Path, taken: bool
) -> None:
    asked = replies_with({"taken": taken})
    with served(tmp_path, hangs_up, asked, replies_with({"seq": 7})) as (server, client, told):
        assert client.request(events.SEND, EventSend("a/b")) == {"seq": 7}
    first, question, second = server.got
    assert first == second
    assert (first.key, question.params) == ("k/event.send/0", {"key": "k/event.send/0"})
    said = "was carried out" if taken else "had no effect; sending it again"
    assert "closed the connection" in told[0] and told[1] == f"event.send {said}"


def test_each_changing_request_of_a_client_has_its_own_key(tmp_path: Path) -> None:
    with served(tmp_path, replies_with(1), replies_with(2), replies_with(3)) as (
        server,
        client,
        _,
    ):
        client.request(events.SEND, EventSend("a"))
        client.request(events.SEND, EventSend("a"))
        client.request(keys.LIST, KeyList())
    assert [each.key for each in server.got] == ["k/event.send/0", "k/event.send/1", ""]


def test_followed_job_is_resent_when_its_first_item_is_lost(tmp_path: Path) -> None:
    item = ClientItem({"type": "new", "jid": "1", "minions": []})
    answers = (hangs_up, replies_with({"taken": True}), lambda request: [item, ClientReply(None)])
    with served(tmp_path, *answers) as (server, client, _):
        assert list(client.stream(jobs.RUN, RunJob("*", "test.ping"))) == [item.value]
    assert server.got[0] == server.got[2]


def test_first_item_of_a_stream_has_a_time_limit_of_its_own(tmp_path: Path) -> None:
    item = ClientItem(JOB_ITEM)
    late = threading.Event()

    def answer(request: ClientRequest) -> list[Any]:
        late.wait(0.05)  # longer than the silence below
        return [item]

    with served(tmp_path, answer) as (_, client, _told):
        stream = client.stream(jobs.RUN, RunJob("*", "test.ping"), 0.001, PATIENCE_SECONDS)
        assert next(stream) == item.value
        with pytest.raises(UnreachableError):
            next(stream)


def test_stream_that_breaks_after_its_first_item_is_not_resent(tmp_path: Path) -> None:
    item = ClientItem({"type": "new", "jid": "1", "minions": []})

    with served(tmp_path, lambda request: [item]) as (server, client, told):
        stream = client.stream(jobs.RUN, RunJob("*", "test.ping"))
        assert next(stream) == item.value
        with pytest.raises(UnreachableError):
            next(stream)
    assert (len(server.got), told) == (1, [])


JOB_ITEM = {"type": "new", "jid": "1", "minions": [], "missing": []}


async def test_async_client_resends_a_followed_job_when_its_first_item_is_lost(
    tmp_path: Path,
) -> None:
    end = [ClientItem(JOB_ITEM), ClientReply({"jid": "1", "states": {}})]
    answers = (hangs_up, replies_with({"taken": True}), lambda request: end)
    with served(tmp_path, *answers) as (server, _, told):
        client = AsyncMasterClient(tmp_path / "s", 5.0, key="k", tell=told.append)
        items = [item async for item in client.follow(jobs.RUN, RunJob("*", "test.ping"))]
    assert [item.jid for item in items if isinstance(item, JobNewItem)] == ["1"]
    assert server.got[0] == server.got[2]
    assert server.got[1].verb == "request.find"
    assert told[1] == "job.run was carried out"


async def test_async_stream_that_breaks_after_its_first_item_is_not_resent(
    tmp_path: Path,
) -> None:
    with served(tmp_path, lambda request: [ClientItem(JOB_ITEM)]) as (server, _, told):
        client = AsyncMasterClient(tmp_path / "s", 5.0, key="k", tell=told.append)
        stream = client.follow(jobs.RUN, RunJob("*", "test.ping"))
        assert isinstance(await anext(stream), JobNewItem)
        with pytest.raises(LostAnswerError):
            await anext(stream)
    assert (len(server.got), told) == (1, [])


async def test_async_client_sends_a_stream_to_an_older_master_without_a_key(
    tmp_path: Path,
) -> None:
    refusal = fails_with(PeerError("ClientRequest: unknown field 'key'"))
    end = [ClientItem(JOB_ITEM), ClientReply({"jid": "1", "states": {}})]
    with served(tmp_path, refusal, lambda request: end) as (server, _, told):
        client = AsyncMasterClient(tmp_path / "s", 5.0, key="k", tell=told.append)
        items = [item async for item in client.follow(jobs.RUN, RunJob("*", "test.ping"))]
    assert len(items) == 1 and [each.key for each in server.got] == ["k.1/job.run/0", ""]


@pytest.mark.parametrize("steps", range(5))
async def test_cancellation_that_coincides_with_an_item_ends_an_async_stream(
    tmp_path: Path, steps: int
) -> None:
    reader = asyncio.StreamReader()
    task = asyncio.create_task(AsyncMasterClient(tmp_path / "s")._more(reader, 60.0))
    await asyncio.sleep(0)
    reader.feed_data(b"item")
    for _ in range(steps):
        await asyncio.sleep(0)
    if task.cancel():
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        assert await task == b"item"


async def test_async_stream_reports_an_item_that_takes_too_long(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="no answer in time"):
        await AsyncMasterClient(tmp_path / "s")._more(asyncio.StreamReader(), 0.001)


def test_request_that_changes_nothing_is_not_resent(tmp_path: Path) -> None:
    with served(tmp_path, hangs_up) as (server, client, told):
        with pytest.raises(UnreachableError, match="closed the connection"):
            client.request(keys.LIST, KeyList())
    assert (len(server.got), told) == (1, [])


def test_older_master_gets_the_request_without_a_key(tmp_path: Path) -> None:
    refusal = fails_with(PeerError("ClientRequest: unknown field 'key'"))
    with served(tmp_path, refusal, replies_with({"seq": 1})) as (server, client, _):
        assert client.request(events.SEND, EventSend("a/b")) == {"seq": 1}
    assert [each.key for each in server.got] == ["k/event.send/0", ""]


def test_outcome_stays_unknown_when_the_master_does_not_know_request_find(tmp_path: Path) -> None:
    answers = (hangs_up, fails_with(NotFoundError("unknown request 'request.find'")))
    with served(tmp_path, *answers) as (server, client, _):
        with pytest.raises(
            UnreachableError, match=r"not known whether event\.send was carried out"
        ):
            client.request(events.SEND, EventSend("a/b"))
    assert len(server.got) == 2


def test_client_names_the_request_key_when_it_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeat, "PATIENCE_SECONDS", 0.05)
    with served(tmp_path, hangs_up) as (server, client, _):

        def close_first(text: str) -> None:
            server.end()

        client._tell = close_first  # the question finds nobody
        with pytest.raises(UnreachableError, match="--request-key k, it takes effect only once"):
            client.request(events.SEND, EventSend("a/b"))


def test_request_without_a_listening_master_is_not_resent(tmp_path: Path) -> None:
    told: list[str] = []
    client = MasterClient(tmp_path / "none", key="k", tell=told.append)
    with pytest.raises(UnreachableError, match="no master listens"):
        client.request(events.SEND, EventSend("a/b"))
    assert told == []


@pytest.mark.parametrize("data", [{"a": "x\udcff"}, {"a": [{"\ud800": 1}]}])
def test_request_with_invalid_utf_8_is_refused(tmp_path: Path, data: Any) -> None:
    client = MasterClient(tmp_path / "none.sock")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        client.request(events.SEND, EventSend("go", data))
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        next(client.stream(jobs.RUN, RunJob("*", fun="test.echo", args=("\udcff",))))

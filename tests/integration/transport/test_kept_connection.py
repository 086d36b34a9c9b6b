from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.client.connection import MasterClient
from catena.client.requests import events, jobs
from catena.core.errors import NotFoundError
from catena.transport.local import LocalClient, LocalPeer
from catena.transport.local_server import LocalConnection, LocalServer
from catena.transport.messages import ClientItem, ClientReply, Envelope
from tests.support.waiting import PATIENCE_SECONDS


class Master:
    """Answers a job.list with how many connections there were, and any stream with items."""

    def __init__(self) -> None:
        self.connections = 0
        self.heard = asyncio.Event()

    def allow(self, peer: LocalPeer) -> bool:
        self.connections += 1
        return True

    async def handle(self, connection: LocalConnection, envelope: Envelope) -> None:
        verb = envelope.message.verb
        if verb == "job.show":
            raise NotFoundError("no such job")
        if verb == "job.watch":
            # Nothing comes behind it for a while.
            await connection.send(ClientItem("patient"), envelope.msg_id, patient=True)
            await self.heard.wait()
        if verb == "event.watch":
            for number in range(3):
                await connection.send(ClientItem(number), envelope.msg_id)
        await connection.send(ClientReply(self.connections), envelope.msg_id)


def served(folder: Path, use: Callable[[MasterClient, Path], Any], starts: int = 1) -> Any:
    """Return what *use* came to in a thread; a server that ends is followed by another."""
    path = folder / "run" / "sock"

    async def whole() -> Any:
        master = Master()
        with MasterClient(path, PATIENCE_SECONDS) as client:
            for _ in range(starts):
                server = LocalServer(path, master.handle, master.allow)
                await server.start()
                try:
                    found = await asyncio.wait_for(
                        asyncio.to_thread(use, client, path), PATIENCE_SECONDS
                    )
                finally:
                    await server.stop()
        return found

    return asyncio.run(whole())


def test_successive_requests_share_a_connection(tmp_path: Path) -> None:
    def use(client: MasterClient, path: Path) -> Any:
        return [client.request(jobs.LIST) for _ in range(3)]

    assert served(tmp_path, use) == [1, 1, 1]


def test_stream_left_early_does_not_disturb_later_requests(tmp_path: Path) -> None:
    def use(client: MasterClient, path: Path) -> Any:
        for item in client.stream(events.WATCH, None):
            assert item == 0
            break
        return client.request(jobs.LIST), list(client.stream(events.WATCH, None))

    assert served(tmp_path, use) == (1, [0, 1, 2])


def test_finished_stream_is_closed_without_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    send = LocalClient._send

    def noted(link: LocalClient, message: Any, *more: Any) -> bytes:
        sent.append(type(message).__name__)
        return send(link, message, *more)

    monkeypatch.setattr(LocalClient, "_send", noted)

    def use(client: MasterClient, path: Path) -> Any:
        # Items and reply come as one: all were said in one turn of the server's loop.
        first = next(iter(client.stream(events.WATCH, None)))
        return first, client.request(jobs.LIST), list(client.stream(events.WATCH, None))

    assert served(tmp_path, use) == (0, 1, [0, 1, 2])
    assert sent == ["ClientRequest"] * 3


def test_delayed_item_is_sent_alone_when_no_other_follows(tmp_path: Path) -> None:
    def use(client: MasterClient, path: Path) -> Any:
        from catena.client.requests.jobs import JobWatch

        return next(iter(client.stream(jobs.WATCH, JobWatch("20260101000000000001"), 10.0)))

    assert served(tmp_path, use) == "patient"


def test_request_during_a_stream_uses_another_connection(tmp_path: Path) -> None:
    def use(client: MasterClient, path: Path) -> Any:
        return [(item, client.request(jobs.LIST)) for item in client.stream(events.WATCH, None)]

    assert served(tmp_path, use) == [(0, 2), (1, 2), (2, 2)]


def test_link_reconnects_to_a_restarted_master(tmp_path: Path) -> None:
    assert served(tmp_path, lambda client, path: client.request(jobs.LIST), starts=2) == 2


def test_refused_request_does_not_affect_the_next_one(tmp_path: Path) -> None:
    def use(client: MasterClient, path: Path) -> Any:
        from catena.client.requests.jobs import JobShow

        with pytest.raises(NotFoundError):
            client.request(jobs.SHOW, JobShow("20260101000000000001"))
        return client.request(jobs.LIST)

    assert served(tmp_path, use) == 2

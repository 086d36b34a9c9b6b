from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import (
    CatenaError,
    NotAllowedError,
    NotFoundError,
    PeerError,
    UnreachableError,
)
from catena.core.files import UnsafeFolderError
from catena.transport import wire
from catena.transport.framing import frame
from catena.transport.local import LocalClient, LocalPeer, listen, peer_of
from catena.transport.local_server import REQUESTS, LocalConnection, LocalServer
from catena.transport.messages import (
    ClientItem,
    ClientReply,
    ClientRequest,
    ClientStop,
    Envelope,
    Failure,
    Ping,
)
from tests.support.waiting import PATIENCE_SECONDS


class Program:
    """A master's program behind the socket."""

    def __init__(self) -> None:
        self.peers: list[LocalPeer] = []
        self.cancelled = asyncio.Event()
        self.started = asyncio.Event()
        #: Requests that `hang` serves now.
        self.hanging = 0
        self.allowed = True

    def allow(self, peer: LocalPeer) -> bool:
        self.peers.append(peer)
        return self.allowed

    async def handle(self, connection: LocalConnection, envelope: Envelope) -> None:
        request = envelope.message
        assert isinstance(request, ClientRequest)
        handler: Callable[..., Awaitable[None]] = getattr(self, request.verb)
        await handler(connection, envelope.msg_id, request.params)

    async def echo(self, connection: LocalConnection, msg_id: bytes, params: Any) -> None:
        await connection.send(ClientReply(params), msg_id)

    async def turned(self, connection: LocalConnection, msg_id: bytes, params: Any) -> None:
        # Number 0 is answered after number 2.
        if params["n"] == 0:
            await self.started.wait()
        if params["n"] == 4:
            raise NotFoundError("no number 4")
        await connection.send(ClientReply(params["n"]), msg_id)
        if params["n"] == 2:
            self.started.set()

    async def count(self, connection: LocalConnection, msg_id: bytes, params: Any) -> None:
        for number in range(params["to"]):
            await connection.send(ClientItem(number), msg_id)
        await connection.send(ClientReply("done"), msg_id)

    async def missing(self, connection: LocalConnection, msg_id: bytes, params: Any) -> None:
        raise NotFoundError("no job of that id")

    async def broken(self, connection: LocalConnection, msg_id: bytes, params: Any) -> None:
        raise ZeroDivisionError("secret detail")

    async def endless(self, connection: LocalConnection, msg_id: bytes, params: Any) -> None:
        self.started.set()
        try:
            while True:
                await connection.send(ClientItem("x" * 1000), msg_id)
                await asyncio.sleep(0)
        finally:
            self.cancelled.set()

    async def hang(self, connection: LocalConnection, msg_id: bytes, params: Any) -> None:
        self.hanging += 1
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.hanging -= 1
            self.cancelled.set()


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Path, Program]]:
    program = Program()
    path = folder / "run" / "master.sock"
    server = LocalServer(path, program.handle, program.allow)
    await server.start()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield path, program
    finally:
        await server.stop()
    assert not path.exists()


def ask(verb: str, **params: Any) -> ClientRequest:
    return ClientRequest(verb, params)


def in_thread(path: Path, use: Callable[[LocalClient], Any]) -> Awaitable[Any]:
    def run() -> Any:
        with LocalClient(path) as client:
            return use(client)

    return asyncio.to_thread(run)


async def test_request_is_answered_and_its_sender_identified(tmp_path: Path) -> None:
    async with served(tmp_path) as (path, program):
        answer = await in_thread(path, lambda c: c.request(ask("echo", a=[1]), timeout=60))
        assert answer == ClientReply({"a": [1]})
        assert program.peers == [LocalPeer(os.getuid(), os.getgid(), os.getpid())]


async def test_pipelined_requests_are_answered_in_order(
    tmp_path: Path,
) -> None:
    def use(client: LocalClient) -> list[int]:
        asked = [ask("turned", n=n) for n in range(6)]
        found = []
        with pytest.raises(NotFoundError, match="no number 4"):
            for reply in client.pipelined(asked, 3, timeout=60):
                found.append(reply.value)
        # What was under way at the failure does not disturb what comes after.
        assert client.request(ask("echo", still="here"), timeout=60).value == {"still": "here"}
        return found

    async with served(tmp_path) as (path, _program):
        assert await in_thread(path, use) == [0, 1, 2, 3]


async def test_forked_process_uses_its_own_connection(tmp_path: Path) -> None:
    def echoes(client: LocalClient, who: str) -> bool:
        asked = [{"who": who, "n": n} for n in range(50)]
        return [client.request(ask("echo", **one), timeout=60).value for one in asked] == asked

    def use(client: LocalClient) -> list[object]:
        assert echoes(client, "before")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if echoes(client, "copy") else 2
            finally:
                os._exit(code)
        return [echoes(client, "parent"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]

    async with served(tmp_path) as (path, program):
        assert await in_thread(path, use) == [True, 0]
        assert len(program.peers) == 2


async def test_local_socket_is_private(tmp_path: Path) -> None:
    async with served(tmp_path) as (path, _program):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert [p.name for p in path.parent.iterdir()] == ["master.sock"]


def test_local_socket_can_be_opened_to_a_group(tmp_path: Path) -> None:
    path = tmp_path / "run" / "sock"
    with listen(path, group=os.getgid()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750


async def test_items_stream_until_the_reply(tmp_path: Path) -> None:
    def use(client: LocalClient) -> tuple[list[Any], Any]:
        return list(client.stream(ask("count", to=5), timeout=60)), client.last_reply

    async with served(tmp_path) as (path, _program):
        assert await in_thread(path, use) == ([0, 1, 2, 3, 4], "done")


async def test_stream_left_early_stops_and_the_connection_stays_usable(tmp_path: Path) -> None:
    def use(client: LocalClient) -> Any:
        items = client.stream(ask("endless"), timeout=60)
        next(items)
        items.close()  # type: ignore[attr-defined]  # it is a generator
        return client.request(ask("echo", again=True), timeout=60)

    async with served(tmp_path) as (path, program):
        assert await in_thread(path, use) == ClientReply({"again": True})
        await program.cancelled.wait()


async def test_disconnect_of_a_client_cancels_its_requests(tmp_path: Path) -> None:
    async with served(tmp_path) as (path, program):
        _, writer = await asyncio.open_unix_connection(path)
        for _ in range(2):
            writer.write(frame(wire.pack(ask("hang"))))
        while program.hanging < 2:
            await program.started.wait()
            program.started.clear()
        writer.close()
        while program.hanging:
            await program.cancelled.wait()
            program.cancelled.clear()
        echoed = await in_thread(path, lambda c: c.request(ask("echo", a=1), timeout=60))
        assert (program.hanging, echoed) == (0, ClientReply({"a": 1}))


async def test_failure_is_raised_as_its_class(tmp_path: Path) -> None:
    async with served(tmp_path) as (path, _program):
        with pytest.raises(NotFoundError, match="no job of that id") as found:
            await in_thread(path, lambda c: c.request(ask("missing"), timeout=60))
        assert found.value.exit_code == 2
        with pytest.raises(NotFoundError):
            await in_thread(path, lambda c: list(c.stream(ask("missing"), timeout=60)))


async def test_internal_error_reveals_no_details(tmp_path: Path) -> None:
    async with served(tmp_path) as (path, _program):
        with pytest.raises(CatenaError, match="internal error") as found:
            await in_thread(path, lambda c: c.request(ask("broken"), timeout=60))
        assert "secret" not in str(found.value)


async def test_unauthorised_user_gets_the_reason(tmp_path: Path) -> None:
    async with served(tmp_path) as (path, program):
        program.allowed = False
        with pytest.raises(NotAllowedError, match="cli_users"):
            await in_thread(path, lambda c: c.request(ask("echo"), timeout=60))


async def test_missing_answer_is_unreachable(tmp_path: Path) -> None:
    async with served(tmp_path) as (path, _program):
        with pytest.raises(UnreachableError, match="in time") as found:
            await in_thread(path, lambda c: c.request(ask("hang"), timeout=0.1))
        assert found.value.exit_code == 3


def test_missing_master_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="no process serves"):
        LocalClient(tmp_path / "none").request(ask("echo"))


async def test_master_that_disconnects_is_unreachable(tmp_path: Path) -> None:
    with listen(tmp_path / "run" / "sock") as listener:
        listener.setblocking(True)
        client = LocalClient(tmp_path / "run" / "sock")

        asking = asyncio.create_task(asyncio.to_thread(client.request, ask("echo"), 5))
        connection, _ = await asyncio.to_thread(listener.accept)
        await asyncio.to_thread(connection.recv, 1000)
        connection.close()
        with pytest.raises(UnreachableError, match="closed the connection"):
            await asking
        client.close()


async def test_malformed_frame_is_answered_and_a_malformed_stream_ends(tmp_path: Path) -> None:
    async with served(tmp_path) as (path, _program):
        reader, writer = await asyncio.open_unix_connection(path)
        bad = wire.pack(Ping(1), msg_id=b"i" * 16)
        writer.write(frame(bad) + frame(b"short") + frame(wire.pack(ask("echo"))))
        answers = []
        for _ in range(3):
            size = int.from_bytes(await reader.readexactly(4), "big")
            raw = await reader.readexactly(size)
            answers.append(wire.unpack(raw, socket="local", receiver="client"))
        assert answers[0].reply_to == b"i" * 16
        assert isinstance(answers[0].message, Failure)
        assert "Ping may not arrive" in answers[0].message.message
        assert isinstance(answers[1].message, Failure)
        assert answers[2].message == ClientReply({})
        writer.write(b"\xff\xff\xff\xff")
        assert await reader.read() == b""
        writer.close()


async def test_simultaneous_requests_of_a_client_are_limited(tmp_path: Path) -> None:
    async with served(tmp_path) as (path, _program):
        reader, writer = await asyncio.open_unix_connection(path)
        for _ in range(REQUESTS + 1):
            writer.write(frame(wire.pack(ask("hang"))))
        size = int.from_bytes(await reader.readexactly(4), "big")
        answer = wire.unpack(await reader.readexactly(size), socket="local", receiver="client")
        assert "requests at once" in answer.message.message
        writer.write(frame(wire.pack(ClientStop(), reply_to=b"n" * 16)))
        writer.close()


async def test_client_that_does_not_read_blocks_only_itself(tmp_path: Path) -> None:
    async with served(tmp_path) as (path, program):
        _, writer = await asyncio.open_unix_connection(path, limit=1)
        writer.write(frame(wire.pack(ask("endless"))))
        await program.started.wait()
        for _ in range(5):
            answer = await in_thread(path, lambda c: c.request(ask("echo"), 5))
            assert answer == ClientReply({})
        writer.close()


def test_socket_in_use_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "run" / "sock"
    with listen(path), pytest.raises(UnreachableError, match="serves it already"):
        listen(path)


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run" / "sock"
    listen(path).close()
    assert path.exists()
    with listen(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        assert peer_of(client).pid == os.getpid()


def test_file_in_place_of_the_socket_is_not_removed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    (folder / "sock").write_text("precious")
    with pytest.raises(UnreachableError, match="not a socket"):
        listen(folder / "sock")
    assert (folder / "sock").read_text() == "precious"


def test_socket_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UnsafeFolderError):
        listen(folder / "sock")


def test_overlong_socket_path_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="longer than a socket"):
        listen(tmp_path / ("x" * 120) / "sock")


async def test_reply_with_a_message_of_another_socket_is_a_peer_error(tmp_path: Path) -> None:
    path = tmp_path / "run" / "sock"
    with listen(path) as listener:
        listener.setblocking(True)
        with LocalClient(path) as client:

            def serve() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(frame(wire.pack(Ping(1))))

            asking = asyncio.create_task(
                asyncio.to_thread(client.request, ask("x"), PATIENCE_SECONDS)
            )
            await asyncio.to_thread(serve)
            with pytest.raises(PeerError, match="Ping may not arrive"):
                await asking


def test_local_client_imports_neither_zmq_nor_asyncio() -> None:
    program = (
        "import sys, catena.transport.local;"
        "print([m for m in ('zmq', 'asyncio', 'yaml', 'hashlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=100
    )
    assert done.stdout.strip() == "[]"


def test_agent_imports_no_asyncio_logging_or_openssl() -> None:
    program = (
        "import sys, catena.transport.agent;"
        "print([m for m in ('asyncio', 'logging', 'yaml', '_hashlib', 'ssl') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=100
    )
    assert done.stdout.strip() == "[]"

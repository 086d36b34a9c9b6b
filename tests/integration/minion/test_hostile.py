"""The daemon's socket refuses processes that break its protocol."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from catena.core.errors import CatenaError, UsageError
from catena.minion.start.blob import SOCKET
from catena.transport import wire
from catena.transport.framing import frame
from catena.transport.local import LocalClient
from catena.transport.messages import ClientRequest, EventFired, JobOrder, JobReturned
from tests.integration.minion.harness import Agent, Pair
from tests.support.waiting import PATIENCE_SECONDS, until

FIRST = "20260101000000000001"


def connect(agent: Agent) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE_SECONDS)
    sock.connect(str(agent.start.run_dir / SOCKET))
    return sock


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        frame(b"short"),
        frame(bytes([200, 1]) + bytes(32)),
        frame(wire.pack(ClientRequest("running", {}))[:-1] + b"\xc1"),
        frame(bytes([20, 1]) + bytes(32) + b"\x80"),
        b"\0\0\x10\0" + bytes(10),
    ],
    ids=["length", "header", "type", "body", "an order", "cut"],
)
async def test_malformed_frame_affects_only_its_sender(pair: Pair, data: bytes) -> None:
    async with pair() as (master, agent):
        with connect(agent) as bad:
            bad.sendall(data)
            bad.shutdown(socket.SHUT_WR)
            while bad.recv(65536):
                pass
        # The Welcome may still travel when the scenario begins; the answer comes after it.
        assert (await master.run(FIRST, "test.ping")).value is True
        assert agent.ask("status")["connected"] is True


async def test_local_process_cannot_order_or_return_jobs(pair: Pair) -> None:
    async with pair() as (master, agent):
        from catena.core.job import JobReturn, JobSpec

        ret = JobReturn(FIRST, "f", (), True, 0, "forged", 0.0, 0.0)
        for message in (JobOrder(JobSpec(FIRST, "test.ping")), JobReturned(ret)):
            with LocalClient(agent.start.run_dir / SOCKET, "job") as client:
                with pytest.raises(CatenaError, match="may not arrive"):
                    client.request(message, 10)
        assert master.told == {} and agent.job_folders() == []


async def test_event_cannot_name_a_file(pair: Pair) -> None:
    async with pair() as (_master, agent):
        with LocalClient(agent.start.run_dir / SOCKET, "job") as client:
            with pytest.raises(UsageError):
                client.request(EventFired("../../x", "t", {}), 10)
        assert list((agent.cache / "outbox").iterdir()) == []


async def test_client_that_does_not_read_does_not_block_the_daemon(pair: Pair) -> None:
    async with pair() as (master, agent):
        with connect(agent) as lazy:
            request = frame(wire.pack(ClientRequest("status", {})))
            for _ in range(200):
                lazy.sendall(request * 20)
            assert (await master.run(FIRST, "test.ping")).value is True
        assert agent.ask("status")["id"] == "m1"


async def test_idle_template_process_ends(pair: Pair, tmp_path: Path) -> None:
    async with pair(template_idle_minutes=0) as (master, agent):
        await master.run(FIRST, "probe.mark", str(tmp_path / "witness"))
        assert agent.process is not None
        children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children")

        def left() -> bool:
            agent.ask("status")
            return not children.read_text().split()

        await until(left, "the end of the template")


async def test_secrets_are_readable_by_the_owner_only(pair: Pair, tmp_path: Path) -> None:
    async with pair() as (master, agent):
        gate = tmp_path / "gate"
        master.order(FIRST, "probe.hold", str(tmp_path / "witness"), str(gate))
        await until((tmp_path / "witness").exists, "the start")
        for top in (agent.cache / "jobs", agent.cache / "outbox", agent.start.run_dir):
            for path in (top, *top.rglob("*")):
                if not path.is_symlink():
                    assert path.stat().st_mode & 0o077 == 0, path
        gate.touch()
        await until(lambda: FIRST in master.returns, "the return")

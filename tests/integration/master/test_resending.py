"""Resent orders and cancellations, and the cost of each round of resending."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from catena.master import daemon
from catena.master.jobs import rows, sender
from catena.transport import wire
from catena.transport.messages import JobCancel
from tests.integration.master.bench import Bench, a_master

LATE = sender.RESEND_SECONDS + 1


@pytest.fixture(autouse=True)
def _no_rounds_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master resends only when a test says so, however slow the machine is."""
    monkeypatch.setattr(daemon, "TICK_SECONDS", 3600.0)


@contextmanager
def full_connections(master: Bench) -> Iterator[None]:
    """No connection takes anything more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(master.wire, "send", lambda *_: False)
        yield


async def test_absent_minions_do_not_count_towards_a_round_of_resending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "SLICE", 2)

    async with a_master() as master:
        *away, here = await master.connect("a1", "a2", "a3", "web1")
        done = await master.submit()
        for script in away:
            script.link.cut("test")
            script.pump()
        master.hand.advance(LATE)
        await master.settle()
        await master.jobs.resend()
        assert [spec.jid for spec in here.orders()] == [done.jid, done.jid]


async def test_round_of_resending_is_limited_and_the_next_one_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "SLICE", 2)

    async with a_master() as master:
        scripts = await master.connect("web1", "web2", "web3")
        await master.submit()
        master.hand.advance(LATE)
        sent = []
        for _ in range(3):
            await master.jobs.resend()
            await master.settle()
            sent.append(sum(len(script.orders()) for script in scripts) - 3)
        assert sent == [2, 3, 3]


async def test_order_is_encoded_once_for_all_minions_it_is_resent_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed: list[str] = []

    def pack(message: object) -> wire.Packed:
        packed.append(type(message).__name__)
        return wire.packed(message)

    async with a_master() as master:
        await master.connect("web1", "web2", "web3")
        await master.submit()
        master.hand.advance(LATE)
        with monkeypatch.context() as patch:
            patch.setattr(sender, "packed", pack)
            await master.jobs.resend()
        assert packed == ["JobOrder"]


async def test_order_that_a_full_connection_refuses_is_resent_in_the_next_round() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        master.hand.advance(LATE)
        with full_connections(master):
            await master.jobs.resend()
            assert await master.states(done.jid) == {"web1": "queued"}
        await master.jobs.resend()
        assert await master.states(done.jid) == {"web1": "sent"}
        assert [spec.jid for spec in web1.orders()] == [done.jid, done.jid]


async def test_cancellation_that_a_full_connection_refuses_is_resent_in_the_next_round() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        await web1.receive(done.jid)
        with full_connections(master):
            assert await master.jobs.cancel(done.jid, user="anna") == {"web1": "stopping"}
        for _ in range(2):
            await master.jobs.resend()
        assert web1.got(JobCancel) == [JobCancel(done.jid, "cancelled by anna")]

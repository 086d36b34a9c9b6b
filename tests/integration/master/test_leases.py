"""Leases, claimed over two connections at once, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.master.executions import leases
from catena.master.executions.leases import Lease, LeaseLostError
from catena.master.store.database import Store
from catena.master.store.execution_tables import LEASES
from tests.support.postgres_server import PostgresServer

HOST = ("ssh_host", "web1")
NOW = 1_000.0
#: Length of a lease, seconds.
LONG = 30.0
ROUNDS = 20


@pytest.fixture(params=["sqlite", "postgresql"])
async def stores(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Store, Store]]:
    """Two programs on one database, each with a connection of its own."""
    url = f"sqlite:///{tmp_path}/store.db"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.new_database()
    first, second = Store(url), Store(url)
    await first.open()
    await second.open()
    yield first, second
    await first.close()
    await second.close()


async def claim(store: Store, holder: str, now: float = NOW) -> Lease | None:
    return await store.write(lambda conn: leases.claim(conn, HOST, holder, now, LONG))


async def won(store: Store, holder: str, now: float = NOW) -> Lease:
    found = await claim(store, holder, now)
    assert found is not None
    return found


async def renew(store: Store, lease: Lease, now: float) -> Lease:
    return await store.write(lambda conn: leases.renew(conn, lease, now, LONG))


async def release(store: Store, lease: Lease) -> bool:
    return await store.write(lambda conn: leases.release(conn, lease))


Stores = tuple[Store, Store]


async def test_held_lease_cannot_be_claimed(stores: Stores) -> None:
    first, second = stores
    held = await won(first, "a")
    assert held == Lease(*HOST, "a", 1, NOW + LONG)
    assert await claim(second, "b") is None
    assert await claim(first, "a") is None
    assert await claim(second, "b", NOW + LONG - 0.001) is None
    other = await second.write(lambda conn: leases.claim(conn, ("run", "web1"), "b", NOW, LONG))
    assert other is not None


async def test_lapsed_lease_is_claimed_with_a_larger_epoch(stores: Stores) -> None:
    first, second = stores
    old = await won(first, "a")
    new = await won(second, "b", NOW + LONG)
    assert (new.holder, new.epoch) == ("b", old.epoch + 1)
    with pytest.raises(LeaseLostError):
        await renew(first, old, NOW + LONG)
    assert not await release(first, old)
    assert await renew(second, new, NOW + LONG + 1) == replace(new, until=NOW + 2 * LONG + 1)


async def test_renewed_lease_lasts_longer(stores: Stores) -> None:
    first, second = stores
    held = await renew(first, await won(first, "a"), NOW + 20)
    assert await claim(second, "b", NOW + LONG) is None
    # Late, but nobody took it.
    held = await renew(first, held, NOW + 500)
    assert held.epoch == 1
    assert await claim(second, "b", NOW + 501) is None


async def test_released_lease_is_free_at_once(stores: Stores) -> None:
    first, second = stores
    held = await won(first, "a")
    assert await release(first, held)
    assert not await release(first, held)
    with pytest.raises(LeaseLostError):
        await renew(first, held, NOW)
    assert (await won(second, "b")).epoch == 2


async def test_holder_with_an_old_epoch_has_lost_the_lease(stores: Stores) -> None:
    first, _ = stores
    old = await won(first, "a")
    new = await won(first, "a", NOW + LONG)
    assert not await release(first, old)
    with pytest.raises(LeaseLostError):
        await renew(first, old, NOW + LONG)
    assert await release(first, new)


async def test_write_under_a_lost_lease_is_rolled_back(stores: Stores) -> None:
    first, second = stores
    old = await won(first, "a")
    new = await won(second, "b", NOW + LONG)

    def guarded(conn: sa.Connection, lease: Lease, name: str) -> None:
        leases.claim(conn, ("written", name), "x", NOW, LONG)
        leases.require(conn, lease)

    with pytest.raises(LeaseLostError):
        await first.write(lambda conn: guarded(conn, old, "by a"))
    await second.write(lambda conn: guarded(conn, new, "by b"))
    query = sa.select(LEASES.c.id).where(LEASES.c.subject == "written")
    assert await first.read(lambda conn: list(conn.execute(query).scalars())) == ["by b"]


async def test_only_lapsed_leases_are_ended(stores: Stores) -> None:
    first, second = stores

    async def end(now: float) -> bool:
        return await second.write(lambda conn: leases.end_lapsed(conn, HOST, now))

    assert await end(NOW)
    held = await won(first, "a")
    assert not await end(NOW + LONG - 1)
    assert await end(NOW + LONG)
    with pytest.raises(LeaseLostError):
        await renew(first, held, NOW + LONG)


async def test_all_leases_of_a_subject_lapse_at_once(stores: Stores) -> None:
    first, second = stores
    await won(first, "a")
    other = await first.write(lambda conn: leases.claim(conn, ("run", "1"), "a", NOW, LONG))
    await second.write(lambda conn: leases.lapse_all(conn, HOST[0]))
    assert (await won(second, "b")).epoch == 2
    assert other is not None
    await renew(first, other, NOW)


async def test_query_finds_live_leases(stores: Stores) -> None:
    first, _ = stores
    name = sa.literal(HOST[1])

    async def live(now: float) -> bool:
        query = sa.select(leases.is_live(HOST[0], name, now))
        return bool(await first.read(lambda conn: conn.execute(query).scalar()))

    assert not await live(NOW)
    held = await won(first, "a")
    assert await live(NOW)
    assert not await live(NOW + LONG)
    await release(first, held)
    assert not await live(NOW)


async def test_claims_at_the_same_moment_have_one_winner(stores: Stores) -> None:
    """The first round inserts the row, the others update it."""
    names = ("a", "b")
    epochs = []
    for number in range(ROUNDS):
        now = NOW + number * LONG
        found = await asyncio.gather(
            *(claim(store, name, now) for store, name in zip(stores, names, strict=True)),
            *(claim(store, name, now) for store, name in zip(stores, "cd", strict=True)),
        )
        winners = [lease for lease in found if lease is not None]
        assert len(winners) == 1, f"round {number}: {winners}"
        epochs.append(winners[0].epoch)
    assert epochs == list(range(1, ROUNDS + 1))


async def test_late_renewal_and_claim_of_a_lapsed_lease_have_one_winner(stores: Stores) -> None:
    """A renewal and a claim race when the time is over: one of them succeeds."""
    first, second = stores
    for number in range(ROUNDS):
        now = NOW + number * 10 * LONG
        held = await won(first, f"a{number}", now)
        renewed, taken = await asyncio.gather(
            renew(first, held, now + LONG), claim(second, "b", now + LONG), return_exceptions=True
        )
        assert isinstance(renewed, LeaseLostError) is isinstance(taken, Lease)
        assert isinstance(renewed, (LeaseLostError, Lease))


async def test_holder_without_a_name_is_refused(stores: Stores) -> None:
    with pytest.raises(ValueError, match="needs a holder"):
        await claim(stores[0], "")

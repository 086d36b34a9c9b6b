"""Enrolment, decisions, tokens, rotation and revocation of keys."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from catena.core.errors import InvalidStateError, NotFoundError, UsageError
from catena.master.keys import enrol
from catena.master.requests.once import Once
from catena.master.store.tables import REQUESTS
from catena.transport.keys import generate, token_proof
from catena.transport.messages import (
    EnrolOffer,
    EnrolProbe,
    EnrolReply,
    EnrolRequest,
    Envelope,
    KeyAnnounce,
    KeyTaken,
)
from tests.integration.master.bench import Bench, Script, a_master
from tests.integration.master.knocker import Knocker
from tests.support.databases import ON_POSTGRES


async def test_key_is_pending_until_it_is_accepted() -> None:
    async with a_master() as master:
        web1 = Knocker(master, "web1")
        assert await web1.say(EnrolProbe()) == EnrolOffer(master.pair.public, "0.1.0")
        reply = await web1.ask()
        assert (reply.state, reply.master_key) == ("pending", master.pair.public)
        assert "catena key accept web1" in reply.reason
        assert web1.pair.fingerprint not in master.accepted
        assert [k.id for k in (await master.keys.list())["pending"]] == ["web1"]
        assert await master.keys.change("accept", "web*", user="anna") == ["web1"]
        assert web1.pair.fingerprint in master.accepted
        assert (await web1.ask()).state == "accepted"
        acts = [e.data["act"] for e in await master.events("salt/auth")]
        assert acts == ["pend"]
        (event,) = await master.events("salt/key")
        assert (event.data["act"], event.data["id"]) == ("accepted", "web1")


async def test_waiting_minion_is_notified_at_once_that_it_is_accepted() -> None:
    async with a_master() as master:
        web1, away = Knocker(master, "web1"), Knocker(master, "away", "10.0.0.8")
        await web1.ask()
        await away.ask()
        # As an older agent, or one that went away: its connection is closed.
        del master.keys.on_accept[:]
        master.keys.on_accept.append(
            lambda key: key.minion == "web1" and master.gate._parts.enrol._notify_accepted(key)
        )
        await master.keys.change("accept", "*")
        assert web1.heard[-1] == EnrolReply("accepted", "", master.pair.public, 0.0)
        assert away.heard[-1].state == "pending"
        assert master.keys.notified(["away", "web1"]) == ["web1"]
        assert master.keys.notified(["away", "web1"]) == []


async def test_rejected_minion_is_notified_at_once_that_it_is_accepted() -> None:
    async with a_master() as master:
        web1 = Knocker(master, "web1")
        await web1.ask()
        await master.keys.change("reject", "web1")
        assert (await web1.ask()).state == "rejected"
        await master.keys.change("accept", "web1")
        assert web1.heard[-1] == EnrolReply("accepted", "", master.pair.public, 0.0)
        assert master.keys.notified(["web1"]) == ["web1"]


async def test_accept_waits_for_a_minion_whose_key_was_just_deleted() -> None:
    async with a_master() as master:
        await Knocker(master, "web1").ask()
        await master.keys.change("delete", "web1")
        accepting = asyncio.create_task(master.keys.change("accept", "web1,web2"))
        await master.settle()
        assert not accepting.done()
        again = Knocker(master, "web1")
        await again.ask()
        assert await accepting == ["web1"]
        assert again.heard[-1].state == "accepted"
        # Nobody was deleted here, so nobody is waited for.
        assert await master.keys.change("accept", "web9") == []


@pytest.mark.skipif(ON_POSTGRES, reason="the first master still has PostgreSQL's lock")
async def test_accepted_keys_are_let_in_after_a_restart() -> None:
    async with a_master() as master:
        await master.accept("web1")
        fresh = Bench(master.settings)
        await fresh.store.open()
        await fresh.keys.open()
        assert list(fresh.keys.ids()) == ["web1"]
        assert len(fresh.accepted) == 1
        await fresh.store.close()


async def test_second_key_for_a_known_id_is_denied_and_replaces_nothing() -> None:
    async with a_master() as master:
        first, second = Knocker(master, "web1"), Knocker(master, "web1")
        await first.ask()
        reply = await second.ask()
        assert reply.state == "denied"
        assert "another key" in reply.reason
        await master.keys.change("accept", "web1")
        assert first.pair.fingerprint in master.accepted
        assert second.pair.fingerprint not in master.accepted
        with pytest.raises(InvalidStateError, match="delete the one that is wrong"):
            await master.keys.change("accept", "web1")


async def test_key_cannot_be_enrolled_under_a_second_id() -> None:
    async with a_master() as master:
        web1 = Knocker(master, "web1")
        await web1.ask()
        assert (await web1.ask("db1")).state == "denied"
        assert [k.id for k in (await master.keys.list())["pending"]] == ["web1"]


async def test_token_accepts_one_key_once() -> None:
    async with a_master() as master:
        token = (await master.keys.make_token("", 60, "anna")).token
        web1, web2, web3 = (Knocker(master, name) for name in ("web1", "web2", "web3"))
        assert (await web3.ask(token="guess")).state == "pending"
        stolen = token_proof(token, web2.pair.public, master.pair.public, "web2")
        assert (await web1.ask(proof=stolen)).state == "pending"
        assert (await web1.ask(token=token)).state == "accepted"
        assert (await web2.ask(token=token)).state == "pending"


async def test_repeated_token_request_after_its_key_was_forgotten_makes_no_second_token() -> None:
    once = Once("anna", "mine", "key.token", "00")

    async with a_master() as master:
        made = await master.keys.make_token("", 60, "anna", once)
        assert await master.keys.make_token("", 60, "anna", once) == made
        await master.store.write(lambda conn: conn.execute(sa.delete(REQUESTS)))
        with pytest.raises(UsageError, match="request key mine has already made a token"):
            await master.keys.make_token("", 60, "anna", once)


async def test_token_for_another_id_or_expired_is_refused() -> None:
    async with a_master() as master:
        bound = (await master.keys.make_token("db1", 60, "anna")).token
        assert (await Knocker(master, "web1").ask(token=bound)).state == "pending"
        master.hand.advance(61.0)
        assert (await Knocker(master, "db1").ask(token=bound)).state == "pending"


async def test_pending_keys_are_limited_and_a_silent_one_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enrol, "PENDING_LIMIT", 2)

    async with a_master() as master:
        for number in range(2):
            await Knocker(master, f"m{number}").ask()
        late = Knocker(master, "late")
        assert "too many keys" in (await late.ask()).reason
        master.hand.advance(61.0)
        assert "catena key accept" in (await late.ask()).reason
        pending = (await master.keys.list())["pending"]
        assert sorted(key.id for key in pending) == ["late", "m1"]


async def test_address_that_fills_the_pending_keys_blocks_no_other_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enrol, "PENDING_LIMIT", 20)

    async with a_master() as master:
        early = Knocker(master, "early", "10.1.1.1")
        await early.ask()
        for number in range(40):
            await Knocker(master, f"evil{number}", "10.6.6.6").ask()
        honest = [Knocker(master, f"web{n}", f"10.2.2.{n}") for n in range(8)]
        near = Knocker(master, "near", "10.6.6.7")
        for minion in (*honest, near):
            assert "catena key accept" in (await minion.ask()).reason
        for number in range(40, 60):
            await Knocker(master, f"evil{number}", "10.6.6.6").ask()
        waiting = {key.id for key in (await master.keys.list())["pending"]}
        assert {"early", "near", *(f"web{n}" for n in range(8))} < waiting
        assert len(waiting) == len(master.keys.waiting) == 20
        token = (await master.keys.make_token("", 60, "anna")).token
        inside = Knocker(master, "inside", "10.6.6.8")
        assert (await inside.ask(token=token)).state == "accepted"
        assert len(master.keys.waiting) == 20
        assert await master.keys.change("accept", "web*") == [f"web{n}" for n in range(8)]
        assert len(master.keys.waiting) == 12


async def test_enrolment_requests_of_one_address_are_limited() -> None:
    async with a_master() as master:
        flood = Knocker(master, "m1", "10.6.6.6")
        replies = [await flood.ask() for _ in range(60)]
        assert "too many requests" in replies[-1].reason
        assert "accept m2" in (await Knocker(master, "m2").ask()).reason


async def test_invalid_minion_id_is_refused_and_not_stored() -> None:
    async with a_master() as master:
        evil = Knocker(master, "evil")
        for name in ("../../etc/cron.d/x", "a b", "", "x" * 254, "a\n"):
            with pytest.raises(UsageError):
                master.gate.on_message(
                    evil.peer,
                    Envelope(b"i" * 16, bytes(16), EnrolRequest(name, "m", "1")),
                )
        assert (await master.keys.list())["pending"] == []


async def test_deleted_key_is_disconnected_at_once() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        assert await master.keys.change("delete", "web1") == ["web1"]
        await master.settle()
        assert web1.pair.fingerprint not in master.accepted
        assert "web1" not in master.sessions
        with pytest.raises(NotFoundError):
            await master.submit("web1")


async def test_reject_by_glob_affects_pending_keys_and_by_id_also_accepted_ones() -> None:
    async with a_master() as master:
        await master.connect("web1", "web2")
        assert await master.keys.change("reject", "*") == []
        assert await master.keys.change("reject", "web1") == ["web1"]
        assert list(master.keys.ids()) == ["web2"]
        assert await master.keys.change("accept", "web1") == ["web1"]


async def test_announced_key_replaces_the_old_one_at_its_first_hello() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        new = generate()
        await web1.say(KeyAnnounce(new.public))
        assert web1.got(KeyTaken) == [KeyTaken(new.public)]
        assert {web1.pair.fingerprint, new.fingerprint} <= set(master.accepted._by_print)
        moved = Script(master, "web1", new, web1.machine)
        moved.session = web1.session
        await moved.hello()
        assert web1.pair.fingerprint not in master.accepted
        done = await master.submit("web1")
        assert [spec.jid for spec in moved.orders()] == [done.jid]
        (shown,) = (await master.keys.list())["accepted"]
        assert shown.fingerprint == new.fingerprint


async def test_key_announcement_for_another_minion_is_refused() -> None:
    async with a_master() as master:
        web1, evil = await master.connect("web1", "evil")
        await evil.say(KeyAnnounce(web1.pair.public))
        assert evil.got(KeyTaken) == []
        assert master.keys.minion_of(web1.pair.fingerprint) == "web1"


@pytest.mark.parametrize(("action", "include"), [("admit", ()), ("accept", ("open",))])
async def test_unknown_key_action_or_state_is_refused_by_name(
    action: str, include: tuple[str, ...]
) -> None:
    async with a_master() as master:
        with pytest.raises(UsageError, match="unknown key"):
            await master.keys.change(action, "*", include)

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catena.transport import agent, wire
from catena.transport.agent import (
    Connected,
    EnrolState,
    Lost,
    Noted,
    Received,
    Rotated,
    Trusted,
)
from catena.transport.channel import Channel, Remote
from catena.transport.enrolment import TrustStore
from catena.transport.keys import generate, load, load_or_create, token_proof
from catena.transport.messages import (
    ChunkRequest,
    EnrolReply,
    EnrolRequest,
    Goodbye,
    Hello,
    JobReceived,
    KeyAnnounce,
    KeyRotate,
    KeyTaken,
    ManifestReply,
    Ping,
    Refused,
    Welcome,
)
from catena.transport.peers import Endpoints
from tests.integration.transport.harness import FAST, a_master, a_minion, hello
from tests.support.waiting import until


async def test_new_minion_trusts_on_first_use_and_connects_once_accepted(pki: Path) -> None:
    async with a_master() as master, a_minion(master, pki) as minion:
        await minion.until(lambda: minion.seen(EnrolState))
        assert minion.seen(Trusted) == [Trusted(master.keys.fingerprint, first_use=True)]
        assert minion.seen(EnrolState) == [EnrolState("pending", "as told")]
        assert TrustStore(pki).load() == master.keys.public
        assert not minion.link.connected

        master.table.accept(minion.keys.public)
        master.state = "accepted"
        await minion.until(lambda: minion.link.connected)
        assert minion.link.send("control", hello())
        await minion.until(lambda: minion.seen(Received))
        (received,) = minion.seen(Received)
        assert isinstance(received.envelope.message, Welcome)
        ((peer, _),) = master.got(Hello)
        assert peer.user_id == minion.keys.fingerprint
        assert peer.key == minion.keys.public
        assert peer.address == "127.0.0.1"


async def test_waiting_minion_connects_when_the_master_says_that_it_is_accepted(pki: Path) -> None:
    # Asking again by itself would take longer than the test waits.
    async with a_master(retry_seconds=300.0) as master, a_minion(master, pki) as minion:
        await minion.until(lambda: minion.seen(EnrolState))
        master.table.accept(minion.keys.public)
        ((peer, msg_id),) = master.asked
        reply = EnrolReply("accepted", "", master.keys.public, 0.0)
        assert master.gateway.send(peer, reply, wire.new_id())  # answers another question
        assert master.gateway.send(peer, reply, msg_id)
        await minion.until(lambda: minion.link.connected)
        assert len(master.asked) == 1


async def test_waiting_minion_asks_again_although_the_master_ended_its_connection(
    pki: Path,
) -> None:
    async with a_master(retry_seconds=1.0) as master, a_minion(master, pki) as minion:
        await minion.until(lambda: minion.seen(EnrolState))
        ((peer, _),) = master.asked
        master.gateway.drop(peer)
        master.table.accept(minion.keys.public)
        master.state = "accepted"
        await minion.until(lambda: minion.link.connected)
        assert not [note for note in minion.seen(Noted) if "not reached" in note.text]


async def test_token_proof_covers_both_keys(pki: Path) -> None:
    async with (
        a_master() as master,
        a_minion(master, pki, enrol_token="t0ken") as minion,
    ):
        await minion.until(lambda: master.got(EnrolRequest))
        _, request = master.got(EnrolRequest)[0]
        expected = token_proof("t0ken", minion.keys.public, master.keys.public, "m1")
        assert request.token_proof == expected


async def test_master_with_another_fingerprint_is_not_trusted(pki: Path) -> None:
    true_master = generate()
    async with (
        a_master() as master,
        a_minion(master, pki, master_finger=true_master.fingerprint) as minion,
    ):
        await minion.until(lambda: minion.seen(EnrolState))
        (state,) = minion.seen(EnrolState)
        assert state.state == "untrusted"
        assert true_master.fingerprint in state.reason
        assert TrustStore(pki).load() is None
        assert not master.got(EnrolRequest)

        # The right one appears: the same minion finds it by itself.
        master.offered = true_master.public
        await minion.until(lambda: minion.seen(Trusted))
        assert minion.seen(Trusted) == [Trusted(true_master.fingerprint, first_use=False)]


async def test_stored_master_key_is_not_replaced_by_another(pki: Path) -> None:
    old_master = generate()
    TrustStore(pki).keep(old_master.public)
    async with a_master() as master, a_minion(master, pki) as minion:
        master.table.accept(minion.keys.public)
        master.state = "accepted"
        await minion.until(lambda: minion.seen(EnrolState))
        assert minion.seen(EnrolState)[0].state == "untrusted"
        assert TrustStore(pki).load() == old_master.public
        assert not minion.seen(Connected)


async def test_refused_minion_asks_for_the_reason_and_reconnects(pki: Path) -> None:
    async with a_master(state="rejected") as master:
        TrustStore(pki).keep(master.keys.public)
        async with a_minion(master, pki) as minion:
            await minion.until(lambda: minion.seen(EnrolState))
            assert minion.seen(EnrolState) == [EnrolState("rejected", "as told")]
            master.table.accept(minion.keys.public)
            master.state = "accepted"
            await minion.until(lambda: minion.link.connected)


async def test_minion_reconnects_to_a_restarted_master(pki: Path) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        async with a_minion(master, pki) as minion:
            master.table.accept(minion.keys.public)
            await minion.until(lambda: minion.link.connected)
            await master.gateway.stop()
            await minion.until(lambda: minion.seen(Lost))
            assert not minion.link.send("control", Ping(1))
            await master.start()
            master.table.accept(minion.keys.public)
            await minion.until(lambda: minion.link.connected)
            assert len(minion.seen(Connected)) == 2


async def test_minion_disconnects_from_a_hanging_master(pki: Path) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        rules = replace(FAST, ping_interval=0.05)
        async with a_minion(master, pki, rules=rules) as minion:
            master.table.accept(minion.keys.public)
            await minion.until(lambda: minion.link.connected)
            # Its I/O thread lives and answers ZMTP heartbeats; its program reads nothing.
            for port in master.gateway._ports.values():
                port._drain = lambda: None  # type: ignore[method-assign]
                assert port._loop is not None
                port._loop.remove_reader(port._fd(port._sock))
            await minion.until(lambda: minion.seen(Lost))
            assert "does not answer pings" in minion.seen(Lost)[0].reason


async def test_pings_keep_a_quiet_connection_up(pki: Path) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        rules = replace(FAST, ping_interval=0.02)
        async with a_minion(master, pki, rules=rules) as minion:
            master.table.accept(minion.keys.public)
            await minion.until(lambda: len(master.got(Ping)) > 10)
            assert not minion.seen(Lost)


async def test_minion_reconnects_when_its_own_address_vanishes(pki: Path) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        rules = replace(FAST, ping_interval=0.02)
        async with a_minion(master, pki, rules=rules) as minion:
            master.table.accept(minion.keys.public)
            await minion.until(lambda: minion.link.connected)
            channel = minion.link._channels["control"]
            assert channel.local_address is not None
            assert channel.local_address[1] == "127.0.0.1"
            channel.local_address = (channel.local_address[0], "192.0.2.77")
            await minion.until(lambda: len(minion.seen(Connected)) == 2)
            assert "address of this host" in minion.seen(Lost)[0].reason


async def test_old_traffic_keys_are_replaced(pki: Path) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        rules = replace(FAST, key_age=0.3)
        async with a_minion(master, pki, rules=rules) as minion:
            master.table.accept(minion.keys.public)
            await minion.until(lambda: len(minion.seen(Connected)) == 2)
            assert "traffic keys" in minion.seen(Lost)[0].reason


@pytest.mark.parametrize(
    "message",
    [Goodbye("restarts"), Refused("busy", "too many", 0.0)],
    ids=["goodbye", "busy"],
)
async def test_refusal_or_goodbye_of_the_master_ends_the_connection_and_is_reported(
    pki: Path, message: object
) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        async with a_minion(master, pki) as minion:
            master.table.accept(minion.keys.public)
            await minion.until(lambda: minion.link.connected)
            minion.link.send("control", hello())
            await minion.until(lambda: minion.seen(Received))
            assert master.gateway.send(master.only_peer(minion.keys), message)
            await minion.until(lambda: minion.seen(Lost))
            assert minion.seen(Received)[-1].envelope.message == message
            await minion.until(lambda: minion.link.connected)


async def test_bulk_connection_opens_on_first_use_and_its_loss_is_reported_separately(
    pki: Path,
) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        async with a_minion(master, pki) as minion:
            master.table.accept(minion.keys.public)
            await minion.until(lambda: minion.link.connected)
            msg_id = wire.new_id()
            request = ChunkRequest("base", "a", "00", 0)
            assert minion.link.send("bulk", request, msg_id=msg_id)
            await minion.until(lambda: master.got(ChunkRequest))
            peer, _ = master.got(ChunkRequest)[0]
            assert peer.socket == "bulk"
            assert master.gateway.send(peer, ManifestReply("00", 1, ()), msg_id)
            await minion.until(lambda: minion.seen(Received))
            (received,) = minion.seen(Received)
            assert received.socket == "bulk"
            assert received.envelope.reply_to == msg_id
            master.gateway.drop(peer)
            await minion.until(lambda: minion.seen(Lost))
            assert minion.seen(Lost)[0].socket == "bulk"
            assert minion.link.connected


async def test_key_is_rotated_inside_the_channel(pki: Path) -> None:
    keys = load_or_create(pki)
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        async with a_minion(master, pki, keys=keys) as minion:
            master.table.accept(keys.public)
            await minion.until(lambda: minion.link.connected)
            minion.link.send("control", hello())
            await minion.until(lambda: master.got(Hello))
            peer = master.only_peer(keys)
            master.gateway.send(peer, KeyRotate())
            await minion.until(lambda: master.got(KeyAnnounce))
            _, announced = master.got(KeyAnnounce)[0]
            master.table.accept(announced.public_key)
            master.gateway.send(peer, KeyTaken(announced.public_key))
            await minion.until(lambda: len(minion.seen(Connected)) == 2)
            new = load(pki)
            assert new.public == announced.public_key != keys.public
            assert minion.seen(Rotated) == [Rotated(new.fingerprint)]
            minion.link.send("control", hello(first=False))
            await minion.until(lambda: len(master.got(Hello)) == 2)
            assert master.got(Hello)[1][0].user_id == new.fingerprint


async def test_interrupted_key_rotation_is_resumed(pki: Path) -> None:
    keys = load_or_create(pki)
    following = load_or_create(pki, "curve.next")
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        async with a_minion(master, pki, keys=keys) as minion:
            master.table.accept(keys.public)
            await minion.until(lambda: minion.link.connected)
            minion.link.send("control", hello())
            await minion.until(lambda: master.got(KeyAnnounce))
            assert master.got(KeyAnnounce)[0][1].public_key == following.public


async def test_oversized_message_is_refused_before_it_is_sent(pki: Path) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        async with a_minion(master, pki) as minion:
            master.table.accept(minion.keys.public)
            await minion.until(lambda: minion.link.connected)
            with pytest.raises(wire.MessageTooLargeError, match="JobReceived"):
                minion.link.send("control", JobReceived("x" * 300_000, 0))


async def test_goodbye_arrives_before_the_link_closes(pki: Path) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        async with a_minion(master, pki) as minion:
            master.table.accept(minion.keys.public)
            await minion.until(lambda: minion.link.connected)
            minion.link.send("control", Goodbye("going down"))
        await until(lambda: master.got(Goodbye) and master.gone, "the minion's Goodbye and end")
        assert [goodbye for _, goodbye in master.got(Goodbye)] == [Goodbye("going down")]


async def test_malformed_frame_of_the_master_is_logged_and_dropped(pki: Path) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        async with a_minion(master, pki) as minion:
            master.table.accept(minion.keys.public)
            await minion.until(lambda: minion.link.connected)
            minion.link.send("control", hello())
            await minion.until(lambda: minion.seen(Received))
            peer = master.only_peer(minion.keys)
            master.gateway._ports["control"].send(peer.routing_id, b"garbage")
            await minion.until(lambda: [n for n in minion.seen(Noted) if "bad frame" in n.text])
            assert minion.link.connected


@pytest.mark.parametrize("host", ["localhost", "no-such-host.invalid"])
async def test_master_is_found_by_name_and_an_unknown_name_is_given_up_early(
    pki: Path, host: str
) -> None:
    async with a_master() as master:
        true = master.endpoints
        TrustStore(pki).keep(master.keys.public)
        named = [e.replace("127.0.0.1", host) for e in (true.control, true.bulk, true.enrol)]
        master.endpoints = Endpoints(*named)
        rules = replace(FAST, resolve=0.05)
        async with a_minion(master, pki, rules=rules) as minion:
            master.table.accept(minion.keys.public)
            if host == "localhost":
                await minion.until(lambda: minion.link.connected)
            else:
                await minion.until(lambda: len(minion.seen(Noted)) >= 3)
                assert "no answer" in minion.seen(Noted)[0].text


async def test_each_failed_attempt_of_a_name_tries_the_other_address_family(
    pki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []

    def channel(context: Any, name: str, remote: Remote, poller: Any) -> Channel:
        tried.append(remote.ipv6)
        return Channel(context, name, remote, poller)

    monkeypatch.setattr(agent, "Channel", channel)
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
        master.endpoints = Endpoints(*[f"tcp://localhost:{port}"] * 3)
        async with a_minion(master, pki) as minion:
            await minion.until(lambda: len(tried) >= 4)
            assert not minion.link.connected
    assert tried[:4] == [False, True, False, True]


async def test_name_without_a_listener_on_ipv6_is_reached_on_ipv4(pki: Path) -> None:
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        port = master.endpoints.control.rpartition(":")[2]
        master.endpoints = Endpoints(*[f"tcp://localhost:{port}"] * 3)
        async with a_minion(master, pki) as minion:
            master.table.accept(minion.keys.public)
            minion.link._ipv6 = True
            await minion.until(lambda: minion.link.connected)
            minion.link.send("control", hello())
            await minion.until(lambda: master.got(Hello))
            assert master.got(Hello) == [(master.only_peer(minion.keys), hello())]


async def test_failed_key_rotation_keeps_the_old_key(pki: Path) -> None:
    keys = load_or_create(pki)
    async with a_master() as master:
        TrustStore(pki).keep(master.keys.public)
        async with a_minion(master, pki, keys=keys) as minion:
            master.table.accept(keys.public)
            await minion.until(lambda: minion.link.connected)
            minion.link.send("control", hello())
            await minion.until(lambda: minion.seen(Received))
            (pki / "curve.next.key").mkdir()
            master.gateway.send(master.only_peer(keys), KeyRotate())
            await minion.until(lambda: [n for n in minion.seen(Noted) if "rotated" in n.text])
            assert minion.link.connected
            assert load(pki) == keys

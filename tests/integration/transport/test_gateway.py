from __future__ import annotations

import asyncio
import os
import socket

import pytest
import zmq

from catena.core.errors import NotAllowedError, UnreachableError
from catena.transport import gateway as gateway_module
from catena.transport import port as port_module
from catena.transport import sockets, wire
from catena.transport.gateway import Gateway, GatewaySettings, _EnrolRate
from catena.transport.keys import generate
from catena.transport.messages import (
    EnrolProbe,
    Envelope,
    Failure,
    Hello,
    JobOrder,
    JobReceived,
    Ping,
    Pong,
    Refused,
)
from catena.transport.peers import Endpoints, KeyTable, Peer
from catena.transport.selftest import SelfTestError, reachable, refuses_strangers
from tests.integration.transport.harness import LOOPBACK, Master, a_master, hello
from tests.integration.transport.raw_peers import Client, Narrow, Network, answer, silence
from tests.support.waiting import run_ready_tasks, until


async def test_ping_is_answered_and_reported(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master)
        sock.send(wire.pack(Ping(7)))
        assert await answer(sock) == Pong(7)
        assert master.got(Ping)[0][0].user_id == keys.fingerprint


@pytest.mark.parametrize("name", ["control", "bulk"])
async def test_messages_of_an_unaccepted_key_are_dropped(network: Network, name: str) -> None:
    async with a_master() as master:
        sock = Client(network, generate()).dial(master, name)
        watched = sockets.watch(sock, "stranger", zmq.EVENT_ALL)
        sock.send(wire.pack(Ping(1)))

        def refused() -> bool:
            return any(
                e.event == zmq.EVENT_HANDSHAKE_FAILED_AUTH for e in sockets.monitor_events(watched)
            )

        try:
            await until(refused)
        finally:
            sockets.unwatch(sock, watched)
        assert master.messages == []


async def test_messages_of_a_client_without_curve_are_dropped(network: Network) -> None:
    async with a_master() as master:
        sock: zmq.Socket[bytes] = network.context.socket(zmq.DEALER)
        network.sockets.append(sock)
        sock.connect(master.endpoints.control)
        sock.send(wire.pack(Ping(1)))
        assert await silence(sock)
        assert master.messages == []


async def test_handshake_with_a_wrong_server_key_fails(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master, server_key=generate().public)
        sock.send(wire.pack(Ping(1)))
        assert await silence(sock)
        assert master.messages == []


async def test_master_refuses_to_start_when_unknown_keys_could_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As with a libzmq that does not enforce domains, or a handler that says yes to all.
    def everybody(domain: bytes, raw: bytes, accepted: KeyTable) -> tuple[bytes, str, str]:
        return b"200", "ab" * 32, "x"

    monkeypatch.setattr("catena.transport.zap.decide", everybody)

    master = Master(generate())
    with pytest.raises(SelfTestError, match="never accepted"):
        await master.start()
    assert master.gateway._context is None


async def test_start_fails_without_the_zap_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "ZapThread", _NoHandler)
    options = {**sockets.SERVER_OPTIONS["control"], zmq.ZAP_ENFORCE_DOMAIN: 0}
    monkeypatch.setattr(sockets, "SERVER_OPTIONS", {**sockets.SERVER_OPTIONS, "control": options})

    with pytest.raises(SelfTestError, match="admitted a key"):
        await Master(generate()).start()


class _NoHandler:
    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        pass

    def join(self) -> None:
        pass


def test_self_test_fails_without_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        endpoint = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(SelfTestError, match="no answer"):
            refuses_strangers("control", endpoint, generate().public, seconds=0.2)


def test_self_test_reaches_wildcard_addresses() -> None:
    assert reachable("tcp://0.0.0.0:4605") == "tcp://127.0.0.1:4605"
    assert reachable("tcp://*:4605") == "tcp://127.0.0.1:4605"
    assert reachable("tcp://[::]:4605") == "tcp://[::1]:4605"
    assert reachable("tcp://192.0.2.1:4605") == "tcp://192.0.2.1:4605"


async def test_address_in_use_is_reported_and_no_socket_stays_open() -> None:
    async with a_master() as first:
        second = Master(generate())
        second.endpoints = Endpoints(first.endpoints.control, LOOPBACK.bulk, LOOPBACK.enrol)
        with pytest.raises(UnreachableError, match=first.endpoints.control):
            await second.start()
        assert second.gateway._context is None


async def test_chosen_routing_id_receives_no_foreign_messages(network: Network) -> None:
    async with a_master() as master:
        honest, thief = generate(), generate()
        for keys in (honest, thief):
            master.table.accept(keys.public)
        one = Client(network, honest).dial(master, ROUTING_ID=b"minion-a")
        one.send(wire.pack(hello()))
        await answer(one)
        two = Client(network, thief).dial(master, ROUTING_ID=b"minion-a")
        two.send(wire.pack(hello()))
        peer = master.only_peer(honest)
        assert peer.user_id == honest.fingerprint
        master.gateway.send(peer, Refused("busy", "for the honest one", 1.0))
        assert await answer(one) == Refused("busy", "for the honest one", 1.0)
        while await asyncio.to_thread(two.poll, 200):
            message = wire.unpack(two.recv(), socket="control", receiver="minion").message
            assert not isinstance(message, Refused)


async def test_claimed_zmtp_properties_do_not_change_the_identity(network: Network) -> None:
    async with a_master() as master:
        keys, victim = generate(), generate()
        master.table.accept(keys.public)
        master.table.accept(victim.public)
        claims = f"X-Key:{victim.public}".encode()
        sock = Client(network, keys).dial(master, METADATA=claims)
        sock.send(wire.pack(Ping(1)))
        assert await answer(sock) == Pong(1)
        ((peer, _),) = master.got(Ping)
        assert (peer.user_id, peer.key) == (keys.fingerprint, keys.public)


async def test_revoked_key_is_notified_and_disconnected_at_once(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master)
        sock.send(wire.pack(Ping(1)))
        await answer(sock)
        peer = master.only_peer(keys)
        watched = sockets.watch(sock, "revoked", zmq.EVENT_DISCONNECTED)
        master.table.revoke(keys.public)
        sock.send(wire.pack(Ping(2)))
        assert master.gateway.send(peer, Ping(3)) is False
        try:
            await until(lambda: list(sockets.monitor_events(watched)))
        finally:
            sockets.unwatch(sock, watched)
        assert len(master.got(Ping)) == 1
        assert master.gone == [peer]


async def test_end_of_an_older_connection_with_the_same_descriptor_ends_no_session(
    network: Network,
) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master)
        sock.send(wire.pack(Ping(1)))
        await answer(sock)
        port = master.gateway._ports["control"]
        (live,) = port.live.values()
        for sure in (False, True):
            port._disconnected(live.fd, sure)
            assert master.only_peer(keys) == live.peer
        sock.close(linger=0)
        await until(lambda: master.gone == [live.peer])


async def test_dropped_minion_receives_the_last_message_and_is_ignored(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master)
        sock.send(wire.pack(Ping(1)))
        await answer(sock)
        peer = master.only_peer(keys)
        last = Refused("duplicate_key", "another one has this key", 5.0)
        assert master.gateway.send(peer, last)
        master.gateway.drop(peer)
        assert master.gateway.connections(keys.fingerprint) == []
        assert not master.gateway.send(peer, Ping(1))
        sock.send(wire.pack(Ping(2)))
        assert await answer(sock) == last
        await until(lambda: master.gone == [peer])
        assert len(master.got(Ping)) == 1


async def test_silent_revoked_minion_receives_the_reason(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master)
        sock.send(wire.pack(Ping(1)))
        await answer(sock)
        master.table.revoke(keys.public)
        refused = await answer(sock)
        assert isinstance(refused, Refused)
        assert refused.code == "revoked"


async def test_thousand_malformed_frames_affect_only_their_sender(network: Network) -> None:
    async with a_master() as master:
        bad, good = generate(), generate()
        for keys in (bad, good):
            master.table.accept(keys.public)
        attacker = Client(network, bad).dial(master)
        honest = Client(network, good).dial(master)
        for number in range(1000):
            attacker.send(os.urandom(number % 60))
        for seq in range(20):
            honest.send(wire.pack(Ping(seq)))
            assert await answer(honest) == Pong(seq)
        await until(lambda: any(p.user_id == bad.fingerprint for p in master.gone))
        counters = master.gateway.counters()["control"]
        assert counters["bad"] == port_module.BAD_FRAMES
        assert [p.user_id for p, _ in master.messages] == [good.fingerprint] * 20


async def test_malformed_frame_is_answered_by_its_id(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master)
        frame = wire.pack(Ping(1), msg_id=b"i" * 16)
        sock.send(bytes([200]) + frame[1:])
        assert await asyncio.to_thread(sock.poll, 3000)
        envelope = wire.unpack(sock.recv(), socket="control", receiver="minion")
        assert envelope.reply_to == b"i" * 16
        assert envelope.message == Failure("PeerError", "unknown message type 200")


async def test_message_meant_for_minions_is_refused(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master)
        sock.send(wire.pack(Refused("revoked", "go away", 0.0)))
        failure = await answer(sock)
        assert "Refused may not arrive" in failure.message
        assert master.messages == []


async def test_multipart_message_ends_the_connection(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master)
        sock.send_multipart([wire.pack(Ping(1))] * 3)
        await until(lambda: master.gone)
        assert master.messages == []


async def test_frame_above_the_socket_limit_ends_the_connection(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master)
        sock.send(wire.pack(Ping(1)))
        await answer(sock)
        sock.send(b"\x0d\x01" + bytes(wire.MIB + 1))
        await until(lambda: master.gone)
        assert len(master.messages) == 1


async def test_internal_error_is_answered_and_ends_no_connection(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        sock = Client(network, keys).dial(master)
        faults = iter([NotAllowedError("not you"), ZeroDivisionError("oops")])

        def broken(peer: Peer, envelope: Envelope) -> None:
            fault = next(faults, None)
            if fault is not None:
                raise fault

        master.gateway._on_message = broken
        sock.send(wire.pack(JobReceived("1", 0)))
        assert await answer(sock) == Failure("NotAllowedError", "not you")
        sock.send(wire.pack(JobReceived("2", 0)))
        failure = await answer(sock)
        assert "oops" not in failure.message
        sock.send(wire.pack(Ping(3)))
        assert await answer(sock) == Pong(3)


async def test_messages_in_progress_count_against_their_sender(
    network: Network,
) -> None:
    settings = GatewaySettings(peer_budget_bytes=100_000)
    async with a_master(settings=settings) as master:
        keys, other = generate(), generate()
        for pair in (keys, other):
            master.table.accept(pair.public)
        sock = Client(network, keys).dial(master)
        work: list[asyncio.Future[None]] = []

        def slow(peer: Peer, envelope: Envelope) -> asyncio.Future[None]:
            work.append(asyncio.get_running_loop().create_future())
            return work[-1]

        master.gateway._on_message = slow
        large = wire.pack(JobReceived("x" * 60_000, 0))
        sock.send(large)
        sock.send(large)
        assert (await answer(sock)).code == "TryLaterError"
        neighbour = Client(network, other).dial(master)
        neighbour.send(large)
        await until(lambda: len(work) == 2)
        work[0].set_result(None)
        await run_ready_tasks(1)
        sock.send(large)
        await until(lambda: len(work) == 3)


async def test_send_returns_false_for_a_minion_that_does_not_read_or_is_gone(
    network: Network,
) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        client = Client(network, keys)
        sock = client.dial(master, "bulk")
        sock.send(b"")
        await until(lambda: master.gateway.connections(keys.fingerprint, "bulk"))
        peer = master.only_peer(keys, "bulk")
        message = Failure("CatenaError", "x" * 500_000)
        sent = 0
        while master.gateway.send(peer, message):
            sent += 1
            assert sent < 500
            await run_ready_tasks(1)
        assert master.gateway.counters()["bulk"]["full"] == 1
        sock.close(linger=0)
        await until(lambda: peer in master.gone)
        assert master.gateway.send(peer, message) is False
        assert master.gateway.connections(keys.fingerprint, "bulk") == []


async def test_unsendable_message_raises_in_the_caller(network: Network) -> None:
    async with a_master() as master:
        peer = Peer("control", b"x", "y", "127.0.0.1", "z")
        with pytest.raises(wire.MessageTooLargeError):
            master.gateway.send(peer, Refused("busy", "x" * 3_000_000, 0.0))
        with pytest.raises(wire.NotPackableError):
            master.gateway.send(peer, JobOrder({1, 2}))  # type: ignore[arg-type]


async def test_enrol_socket_accepts_any_key_and_only_enrolment_messages(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        sock = Client(network, keys).dial(master, "enrol")
        sock.send(wire.pack(EnrolProbe()))
        offer = await answer(sock, "enrol")
        assert offer.master_key == master.keys.public
        ((peer, _),) = master.got(EnrolProbe)
        assert (peer.user_id, peer.key) == (keys.fingerprint, keys.public)
        sock.send(wire.pack(hello()))
        assert isinstance(await answer(sock, "enrol"), Failure)
        assert not master.got(Hello)


async def test_number_of_enrol_connections_is_limited(network: Network) -> None:
    settings = GatewaySettings(enrol_connections=3, enrol_seconds=3600.0)
    async with a_master(settings=settings) as master:
        clients = []
        for count in range(5):
            sock = Client(network, generate()).dial(master, "enrol")
            sock.send(wire.pack(EnrolProbe()))
            await answer(sock, "enrol")
            clients.append(sock)
            assert len(master.gateway._ports["enrol"].live) <= 3, count
        await until(lambda: len(master.gone) == 2)


async def test_duration_of_enrol_connections_is_limited(network: Network) -> None:
    async with a_master(settings=GatewaySettings(enrol_seconds=3.0)) as master:
        sock = Client(network, generate()).dial(master, "enrol")
        sock.send(wire.pack(EnrolProbe()))
        await answer(sock, "enrol")
        await until(lambda: len(master.gone) == 1)
        assert master.gateway.counters()["enrol"]["over"] == 1


async def test_rate_of_enrol_requests_is_limited(network: Network) -> None:
    # So low that a loaded machine's answers, which are far apart, exceed it too.
    async with a_master(settings=GatewaySettings(enrol_rate=1)) as master:
        sock = Client(network, generate()).dial(master, "enrol")
        answers = []
        for _ in range(12):
            sock.send(wire.pack(EnrolProbe()))
            answers.append(await answer(sock, "enrol"))
        later = [a for a in answers if isinstance(a, Failure) and a.code == "TryLaterError"]
        assert len(later) >= 6


def test_enrol_rate_is_shared_by_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("catena.transport.gateway.time.monotonic", lambda: 0.0)
    rate = _EnrolRate(GatewaySettings(enrol_rate=40))
    assert [rate.take("10.0.0.1") for _ in range(500)].count(True) == 10
    assert [rate.take(f"10.0.0.{n}") for n in range(2, 200)].count(True) == 10
    # They have used half of it; of IPv6 a host has as many addresses as it likes.
    assert [rate.take(f"2001:db8::{n:x}") for n in range(100)].count(True) == 10
    assert all(rate.take(f"192.0.{n}.1") for n in range(10))


async def test_connections_without_a_curve_handshake_are_cut(network: Network) -> None:
    async with a_master() as master:
        port = int(master.endpoints.enrol.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as idle:
            idle.setblocking(False)

            def closed() -> bool:
                try:
                    return idle.recv(1000) == b""
                except BlockingIOError:
                    return False

            assert not closed()
            await until(closed)
        assert master.messages == []


async def test_cloned_minion_appears_as_two_connections_of_one_key(network: Network) -> None:
    async with a_master() as master:
        keys = generate()
        master.table.accept(keys.public)
        both = [Client(network, keys).dial(master) for _ in range(2)]
        for sock in both:
            sock.send(wire.pack(Ping(1)))
            await answer(sock)
        first, second = master.gateway.connections(keys.fingerprint)
        assert first.routing_id != second.routing_id
        master.gateway.drop(second)
        await until(lambda: master.gone == [second])
        both[0].send(wire.pack(Ping(2)))
        assert await answer(both[0]) == Pong(2)


async def test_ipv6_is_served_where_the_host_has_it() -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("no IPv6 loopback on this host")

    gateway = Gateway(
        Endpoints(*["tcp://[::1]:0"] * 3), generate(), KeyTable(), lambda peer, envelope: None
    )
    await gateway.start()
    try:
        for endpoint in (gateway.endpoints.control, gateway.endpoints.enrol):
            assert endpoint.startswith("tcp://[::1]:")
            _, writer = await asyncio.open_connection("::1", int(endpoint.rpartition(":")[2]))
            writer.close()
    finally:
        await gateway.stop()


async def test_endless_message_is_cut_at_the_byte_budget(network: Network) -> None:
    # libzmq keeps the parts of such a message until the last one came, without any limit.
    async with a_master(settings=GatewaySettings(peer_budget_bytes=1_000_000)) as master:
        keys = generate()
        master.table.accept(keys.public)
        true_port = int(master.endpoints.control.rpartition(":")[2])
        narrow = Narrow(true_port, 3_000_000)
        master.endpoints = Endpoints(
            f"tcp://127.0.0.1:{await narrow.open()}", LOOPBACK.bulk, LOOPBACK.enrol
        )
        sock = Client(network, keys).dial(master)
        sock.send(wire.pack(Ping(1)))
        await answer(sock)
        (connection,) = master.gateway._ports["control"]._connections._by_fd.values()
        await until(lambda: not connection.delivered)
        sock.send_multipart([bytes(900_000)] * 5)
        await until(lambda: master.gone)
        assert master.gateway.counters()["control"]["over"] == 1
        assert len(master.messages) == 1
        sock.close(linger=0)
        await narrow.close()

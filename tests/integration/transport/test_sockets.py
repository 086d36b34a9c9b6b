"""Sockets of libzmq are released after their close."""

from __future__ import annotations

import zmq

from catena.transport import sockets
from catena.transport.port import Port, PortLimits


def test_socket_created_right_after_another_one_was_closed_can_be_watched() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        # The next socket has the place of the closed one, whose address libzmq still holds.
        for _ in range(20):
            sock = context.socket(zmq.DEALER)
            pair = sockets.watch(sock, "again", zmq.EVENT_ALL)
            sock.bind("tcp://127.0.0.1:0")
            assert pair.poll(60_000)
            seen = [found.event for found in sockets.monitor_events(pair)]
            assert seen[0] == zmq.EVENT_LISTENING
            sockets.unwatch(sock, pair)
            sock.close(linger=0)
    finally:
        context.destroy(linger=0)


def test_answers_that_a_peer_reads_at_once_are_never_refused_for_a_full_queue() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        router = context.socket(zmq.ROUTER)
        for option, value in ((zmq.SNDHWM, 8), (zmq.ROUTER_MANDATORY, 1)):
            router.setsockopt(option, value)
        dealer = context.socket(zmq.DEALER)
        router.bind("tcp://127.0.0.1:0")
        dealer.connect(router.getsockopt_string(zmq.LAST_ENDPOINT))
        dealer.send(b"hello")
        routing_id, _ = router.recv_multipart()
        port = Port("bulk", router, PortLimits(1024), lambda *_: None, lambda _: None)
        sent = []
        for _ in range(500):
            sent.append(port.send(routing_id, b"answer"))
            assert not sent[-1] or dealer.recv() == b"answer"
        assert all(sent), sent.index(False)
    finally:
        context.destroy(linger=0)

"""Sockets of libzmq are released after their close."""

from __future__ import annotations

import zmq

from catena.transport import sockets


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

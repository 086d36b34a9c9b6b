"""Sockets as libzmq gives them: what is closed there is gone only a moment later."""

from __future__ import annotations

import zmq

from catena.transport import sockets


def test_connections_may_be_watched_one_right_after_the_other() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        # The next socket has the place of the closed one, whose address libzmq still holds.
        for _ in range(20):
            sock = context.socket(zmq.DEALER)
            pair = sockets.watch(sock, "again", zmq.EVENT_ALL)
            sockets.unwatch(sock, pair)
            sock.close(linger=0)
    finally:
        context.destroy(linger=0)

"""Print the median seconds of a request and reply over bare ZeroMQ between two processes."""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time

import zmq


def answer(port: int, count: int) -> None:
    """Answer a number of requests."""
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.connect(f"tcp://127.0.0.1:{port}")
        for _ in range(count):
            socket.send(socket.recv())


def main(count: int) -> float:
    """Return the median of *count* round trips, seconds."""
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        other = multiprocessing.get_context("spawn").Process(target=answer, args=(port, count + 5))
        other.start()
        seconds = []
        for _ in range(count + 5):
            begun = time.perf_counter()
            socket.send(b"ping")
            socket.recv()
            seconds.append(time.perf_counter() - begun)
        other.join(10)
    return statistics.median(seconds[5:])


if __name__ == "__main__":
    print(main(int(sys.argv[1])))

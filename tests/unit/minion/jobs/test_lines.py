from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from catena.minion.jobs import lines
from catena.minion.jobs.lines import DONE, FREE, GIVEN_BYTES, GO, Lines
from catena.minion.jobs.processes import ProcessRef
from catena.minion.loop import Loop
from tests.support.waiting import PATIENCE_SECONDS

A, B = ProcessRef(1, 1, "boot"), ProcessRef(2, 2, "boot")


class Told:
    """Keeps what came."""

    def __init__(self) -> None:
        self.finished_jobs: list[str] = []
        self.outcomes: dict[str, bytes] = {}
        self.has_room = True
        self.left: list[ProcessRef] = []

    def forked(self, jid: str, pid: int, start: int | None) -> None:
        """Not told here."""

    def unforked(self, jids: list[str]) -> None:
        """Not told here."""

    def finished(self, jid: str) -> None:
        self.finished_jobs.append(jid)

    def handed(self, jid: str, body: bytes) -> bool:
        self.outcomes[jid] = body
        return self.has_room


class Bench:
    """Lines with the other ends of two of them."""

    def __init__(self) -> None:
        self.loop, self.told = Loop(), Told()
        self.lines = Lines(self.loop, self.told, self.told.left.append)
        self.ends = {A: self.join(A, "one"), B: self.join(B, "two")}

    def join(self, process: ProcessRef, jid: str) -> socket.socket:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.lines.add(process, mine, "cmd", jid)
        its.settimeout(PATIENCE_SECONDS)
        return its

    def say(self, process: ProcessRef, what: bytes) -> None:
        self.ends[process].send(what)
        self.loop.poll(1000)

    def close(self) -> None:
        self.lines.close()
        for end in self.ends.values():
            end.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def test_job_is_dispatched_only_to_a_worker_that_reported_free(bench: Bench) -> None:
    assert bench.lines.free("cmd") is None and not bench.lines.give(A, "three", b"order")
    bench.say(A, FREE)
    assert bench.told.finished_jobs == ["one"]
    assert bench.lines.free("cmd") == A and bench.lines.free("test") is None
    assert not bench.lines.give(A, "three", bytes(GIVEN_BYTES + 1))
    assert bench.lines.give(A, "three", b"order") and bench.ends[A].recv(99) == b"order"
    assert bench.lines.free("cmd") is None
    bench.say(A, DONE + b"outcome")
    assert bench.told.outcomes == {"three": b"outcome"} and bench.lines.free("cmd") == A


def test_worker_of_an_old_template_gets_no_further_job(bench: Bench) -> None:
    bench.say(A, FREE)
    bench.lines.retire_all()
    assert bench.ends[A].recv(99) == GO and bench.told.left == [A]
    bench.say(B, DONE + b"outcome")
    assert bench.told.outcomes == {"two": b"outcome"} and bench.told.left == [A, B]
    assert bench.ends[B].recv(99) == GO and bench.lines.free("cmd") is None


def test_worker_that_disconnects_is_forgotten(bench: Bench) -> None:
    bench.say(A, FREE)
    bench.ends[A].close()
    assert not bench.lines.give(A, "three", b"order") and A not in bench.lines
    bench.ends[B].close()
    bench.loop.poll(1000)
    assert B not in bench.lines and bench.told.outcomes == {}


def test_worker_whose_outcome_could_not_be_stored_is_not_told_to_exit(bench: Bench) -> None:
    bench.told.has_room = False
    bench.say(A, DONE + b"outcome")
    assert bench.told.outcomes == {"one": b"outcome"} and bench.told.left == [A]
    assert bench.ends[A].recv(99) == b"" and bench.lines.free("cmd") is None


def test_long_idle_worker_is_told_to_exit_and_a_busy_one_is_not(bench: Bench) -> None:
    assert bench.lines.next_due() is None
    bench.say(A, FREE)
    bench.lines.service(5.0)
    due = 5.0 + lines.REST_SECONDS
    assert bench.lines.next_due() == due
    bench.lines.service(due - 0.1)
    assert A in bench.lines
    bench.lines.service(due)
    assert A not in bench.lines and B in bench.lines and bench.ends[A].recv(99) == GO


def test_stopping_daemon_tells_only_idle_workers_to_exit(bench: Bench) -> None:
    bench.say(A, FREE)
    bench.lines.close()
    # Who works has an outcome to keep when it meets the end.
    assert bench.ends[A].recv(99) == GO and bench.ends[B].recv(99) == b""

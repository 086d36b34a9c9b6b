from __future__ import annotations

import pytest

from catena.master.jobs.output import BURST_BYTES, cost
from catena.master.minions.limits import RateLimit
from catena.minion.link.output import WAITING_BYTES, OutputSender
from catena.transport.messages import JobOutput, OutputStored, Welcome

ONE, TWO = "20260101000000000001", "20260101000000000002"
WELCOME = Welcome("1", 15, 0, output_per_second=1000, output_limit=100_000)


class Link:
    """Takes messages as long as it is not full."""

    def __init__(self) -> None:
        self.sent: list[JobOutput] = []
        self.full = False

    def send(self, message: JobOutput) -> bool:
        if not self.full:
            self.sent.append(message)
        return not self.full


def part(at: int, size: int = 100, jid: str = ONE, attempt: int = 0) -> JobOutput:
    return JobOutput(jid, attempt, at, size, "stdout", "x" * size)


def connected(welcome: Welcome = WELCOME) -> tuple[Link, OutputSender]:
    link = Link()
    sender = OutputSender(link.send)
    sender.connected(welcome, 0.0)
    return link, sender


def test_master_that_takes_no_output_gets_none_and_nothing_is_kept() -> None:
    link, sender = connected(Welcome("1", 15))
    sender.take(part(0), 0.0)
    assert sender.next_due() is None
    sender.connected(WELCOME, 1.0)
    sender.service(1.0)
    assert link.sent == []


@pytest.mark.parametrize("rate", [1024, 64 * 1024, 512 * 1024])
def test_output_never_exceeds_the_rate_limit_of_the_master(rate: int) -> None:
    welcome = Welcome("1", 15, 0, output_per_second=rate, output_limit=10**9)
    link, sender = connected(welcome)
    clock = [0.0]
    limit = RateLimit(rate, 2 * rate + BURST_BYTES, lambda: clock[0])
    at = 0
    for turn in range(3000):
        clock[0] += 0.01
        for _ in range(4):
            sender.take(part(at, 16 * 1024), clock[0])
            at += 16 * 1024
        sender.service(clock[0])
        if turn % 1000 == 999:
            # The confirmations are lost with the connection.
            assert all(limit.allow("me", cost(message)) for message in link.sent)
            link.sent.clear()
            sender.connected(welcome, clock[0])
        elif turn % 300 == 299:
            # Everything arrives late and at once.
            for message in link.sent:
                assert limit.allow("me", cost(message))
                sender.stored(OutputStored(ONE, 0, message.at + message.size))
            link.sent.clear()


def test_new_connection_resends_only_what_is_not_stored() -> None:
    link, sender = connected()
    for at in (0, 100, 200):
        sender.take(part(at), 0.0)
    sender.service(0.0)
    sender.stored(OutputStored(ONE, 0, 200))
    sender.lost()
    assert sender.next_due() is None
    sender.connected(WELCOME, 9.0)
    sender.service(9.0)
    assert [message.at for message in link.sent] == [0, 100, 200, 200]


def test_output_before_the_first_connection_waits_for_it() -> None:
    link = Link()
    sender = OutputSender(link.send)
    sender.take(part(0), 0.0)
    sender.service(0.0)
    assert link.sent == []
    sender.connected(WELCOME, 1.0)
    sender.service(1.0)
    assert [message.at for message in link.sent] == [0]


def test_output_stays_within_the_rate_limit_and_the_rest_follows_later() -> None:
    link, sender = connected()
    for at in range(0, 3000, 500):
        sender.take(part(at, 500), 0.0)
    sender.service(0.0)
    assert len(link.sent) == 2
    due = sender.next_due()
    assert due is not None and due > 0.0
    now = 0.0
    while sender.next_due() is not None and now < 60.0:
        now += 0.5
        sender.service(now)
    assert [message.at for message in link.sent] == list(range(0, 3000, 500)) and now >= 2.0


def test_full_link_keeps_the_order() -> None:
    link, sender = connected()
    link.full = True
    sender.take(part(0), 0.0)
    sender.take(part(100), 0.0)
    sender.service(0.0)
    link.full = False
    sender.service(1.0)
    assert [message.at for message in link.sent] == [0, 100]


def test_output_over_the_limit_is_dropped_and_a_stored_return_frees_space() -> None:
    _, sender = connected(Welcome("1", 15, 0, output_per_second=1, output_limit=10**9))
    size = WAITING_BYTES // 2
    for at in range(3):
        sender.take(part(at * size, size - 200), 0.0)
    sender.take(part(0, 100, TWO), 0.0)
    assert sender.waiting_bytes <= WAITING_BYTES
    sender.ended(ONE)
    assert sender.waiting_bytes < size


def test_one_job_sends_no_more_than_its_limit() -> None:
    link, sender = connected(Welcome("1", 15, 0, output_per_second=10**6, output_limit=500))
    for at in range(0, 1000, 100):
        sender.take(part(at), 0.0)
    sender.service(0.0)
    assert [message.at for message in link.sent] == [0, 100, 200]


def test_small_chunks_of_a_job_count_their_overhead_against_its_limit() -> None:
    link, sender = connected(Welcome("1", 15, 0, output_per_second=10**6, output_limit=1280))
    for at in range(100):
        sender.take(part(at, 1), 0.0)
    sender.service(0.0)
    assert len(link.sent) == 10

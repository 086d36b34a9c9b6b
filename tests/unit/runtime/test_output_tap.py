from __future__ import annotations

from catena.runtime.output_tap import (
    FLUSH_SECONDS,
    HELD_BYTES,
    PART_BYTES,
    QUIET_SECONDS,
    CommandTap,
    Meter,
)

Sent = tuple[int, int, str, str]


class Follower:
    """A tap with a clock of its own."""

    def __init__(self) -> None:
        self.now, self.meter = 100.0, Meter()
        self.sent: list[Sent] = []
        self.is_away = False

    def tap(self) -> CommandTap:
        return CommandTap(self.meter, self._send, now=lambda: self.now)

    def _send(self, at: int, size: int, stream: str, text: str) -> bool:
        if not self.is_away:
            self.sent.append((at, size, stream, text))
        return not self.is_away


def test_output_is_sent_while_the_command_runs_and_the_rest_at_its_end() -> None:
    follower = Follower()
    tap = follower.tap()
    tap.take("stdout", b"one\n")
    assert follower.sent == []
    follower.now += QUIET_SECONDS
    tap.tick()
    assert follower.sent == [(0, 4, "stdout", "one\n")]
    tap.take("stderr", b"two\n")
    assert len(follower.sent) == 1
    follower.now += FLUSH_SECONDS
    tap.tick()
    tap.take("stdout", b"three")
    tap.close()
    assert follower.sent[1:] == [(4, 4, "stderr", "two\n"), (8, 5, "stdout", "three")]


def test_short_command_sends_nothing_and_leaves_no_gap() -> None:
    follower = Follower()
    tap = follower.tap()
    tap.take("stdout", b"quick")
    tap.close()
    assert follower.sent == [] and follower.meter.at == 0


def test_output_beyond_the_buffer_is_a_gap_in_the_positions() -> None:
    follower = Follower()
    tap = follower.tap()
    tap.take("stdout", b"a" * (HELD_BYTES + 10))
    follower.now += QUIET_SECONDS
    tap.take("stdout", b"lost, too")
    tap.take("stdout", b"b")
    tap.close()
    assert sum(size for _, size, _, _ in follower.sent) == HELD_BYTES + 1
    assert all(size <= PART_BYTES for _, size, _, _ in follower.sent)
    assert follower.sent[-1] == (HELD_BYTES + 19, 1, "stdout", "b")


def test_output_waits_for_an_agent_that_is_away() -> None:
    follower = Follower()
    tap = follower.tap()
    follower.is_away = True
    follower.now += QUIET_SECONDS
    tap.take("stdout", b"one\n")
    follower.is_away = False
    follower.now += FLUSH_SECONDS
    tap.take("stdout", b"two\n")
    assert [(at, text) for at, _, _, text in follower.sent] == [(0, "one\n"), (4, "two\n")]


def test_character_split_between_reads_is_decoded() -> None:
    follower = Follower()
    tap = follower.tap()
    follower.now += QUIET_SECONDS
    tap.take("stdout", "ü".encode()[:1])
    tap.take("stdout", "ü".encode()[1:])
    tap.close()
    assert "".join(text for _, _, _, text in follower.sent) == "ü"
    assert sum(size for _, size, _, _ in follower.sent) == 2

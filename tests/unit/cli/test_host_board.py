"""What a live view of hosts over SSH shows, without a terminal."""

from __future__ import annotations

import pytest

from catena.cli.output import host_board
from catena.cli.output.board import ACTIVE, DONE, FAILED, WAITING, failure
from catena.cli.output.host_board import HostBoard


def test_host_board_shows_steps_times_and_reasons() -> None:
    board = HostBoard("state.apply", ["a", "b", "c", "d"], 2, 100.0)
    board.say("a", "connect: 10.0.0.1", 101.0)
    board.say("a", "run: 3/20", 105.0)
    board.say("b", "compile: gra\x1b[31mins", 102.0)
    board.say("c", "run: 1/4", 103.0)
    board.end("c", "the conf (file.managed): no\x07")
    found = board.board(9, 9)
    assert [tuple(line) for line in found.lines] == [
        ("c", FAILED, 4, 4, "the conf (file.managed): no\\x07", 0.0),
        ("a", ACTIVE, 3, 20, "run: 3/20", 101.0),
        ("b", ACTIVE, 0, 1, "compile: gra\\x1b[31mins", 102.0),
        ("d", WAITING, 0, 1, "queued: 2 hosts at a time", 100.0),
    ]
    assert (found.title, found.done, found.total) == ("state.apply", 7, 26)
    assert found.failures == ["c: the conf (file.managed): no\\x07"]
    board.end("a", "")
    assert board.board(1, 0).counts == {FAILED: 1, ACTIVE: 1, WAITING: 1, DONE: 1}
    assert board.board(1, 0).failures == []


@pytest.mark.parametrize("text", ["run: 9/4", "run: 5/0"])
def test_invalid_step_count_never_exceeds_its_total(text: str) -> None:
    board = HostBoard("x", ["a"], 1, 0.0)
    board.say("a", text, 1.0)
    (line,) = board.board(1, 0).lines
    assert line.done <= line.total


def test_failures_kept_by_the_host_board_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_board, "KEPT_FAILURES", 2)
    board = HostBoard("x", ["a", "b", "c"], 3, 0.0)
    for host in ("a", "b", "c"):
        board.end(host, "no")
    assert board.board(1, 9).failures == ["b: no", "c: no"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"retcode": 3, "stdout": "x", "stderr": "one\nno such\x07 file\n"},
         "exit code 3: no such\\x07 file"),
        ({"retcode": 3, "stdout": "said\n", "stderr": ""}, "exit code 3: said"),
        ({"retcode": 3, "stdout": "", "stderr": ""}, "exit code 3"),
    ],
)  # fmt: skip
def test_failed_command_is_shown_with_its_code_and_last_line(value: object, text: str) -> None:
    assert failure(value) == text

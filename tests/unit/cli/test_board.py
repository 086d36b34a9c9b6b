"""What a live view shows, without a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from catena.cli.output import board as boards
from catena.cli.output.board import ACTIVE, DONE, FAILED, WAITING, BoardLine, ChainBoard, JobBoard
from catena.cli.output.fetching import fetching
from catena.cli.output.screen import _cells
from catena.cli.output.tags import parts, spoken
from catena.client.follow import JobFollower
from catena.client.replies.chains import (
    ActionView,
    ChainEventItem,
    ChainOutputItem,
    ChainView,
    MinionView,
)
from catena.core.frozen import replace
from tests.unit.cli.views import chain_view

STAMP = "2026-03-01T12:00:00.000000"


def action(number: int, status: str, **more: Any) -> ActionView:
    one = ActionView(number, 0, "cmd", f"Run {number}", "", status, "", "", "", {}, 0, 0, 0, 1)
    return replace(one, **more)


def view(minions: Mapping[str, list[ActionView]], **more: Any) -> ChainView:
    rows = tuple(MinionView(name, "", "", tuple(some)) for name, some in minions.items())
    return replace(chain_view(), label="a\x1b", state="running", minions=rows, **more)


def chain(**minions: list[ActionView]) -> ChainBoard:
    board = ChainBoard()
    board.feed(view(minions))
    return board


def event(board: ChainBoard, number: int, status: str, **more: Any) -> None:
    data = {"action": number, "minion": "m", "status": status, **more}
    board.feed(ChainEventItem("x", data, STAMP))


def test_board_shows_failed_minions_first_and_counts_those_that_do_not_fit() -> None:
    board = chain(
        done=[action(1, "Completed")],
        waits=[action(2, "Queued", waits="behind chain 6")],
        works=[action(3, "Completed"), action(4, "Picked Up", started=5.0)],
        fails=[action(5, "Failed", comment="no")],
    )
    found = board.board(2, 1)
    assert [(line.minion, line.kind) for line in found.lines] == [
        ("fails", FAILED),
        ("works", ACTIVE),
    ]
    assert found.hidden == {FAILED: 0, ACTIVE: 0, WAITING: 1, DONE: 1}
    assert (found.done, found.total, found.title) == (2, 5, "Chain 7 a\\x1b: running")
    assert found.lines[1].text == "Run 4" and found.lines[1].since == 5.0
    assert board.board(9, 0).lines[2].text == "Run 2: behind chain 6"


def test_event_updates_its_action_and_a_later_view_gives_the_reason() -> None:
    board = chain(m=[action(1, "Queued", waits="x"), action(2, "Queued")])
    event(board, 1, "Picked Up", reason="reboot")
    assert board.board(1, 0).lines[0].text == "Run 1: waits for the boot"
    event(board, 1, "Failed", reason="retcode 1")
    assert board.board(1, 3).failures == ["m: Run 1: retcode 1"]
    tag = "file_|-the conf_|-/etc/x_|-managed"
    failed = action(1, "Failed", comment=f"{tag}: no\nsuch file")
    board.feed(replace(view({"m": [failed, action(2, "Queued")]}), state="failed"))
    assert board.board(1, 3).failures == ["m: Run 1: the conf (file.managed): no such file"]
    assert board.has_ended


def test_failure_is_shown_with_the_comment_of_its_event() -> None:
    board = chain(m=[action(1, "Picked Up")])
    event(board, 1, "Failed", reason="", comment="no\nspace left")
    assert board.board(1, 3).failures == ["m: Run 1: no space left"]
    assert board.board(1, 0).lines[0].text == "Run 1: no space left"
    event(board, 1, "Failed", reason="", comment="")
    assert board.board(1, 3).failures == ["m: Run 1"]


def test_actions_that_need_a_failed_one_are_only_counted() -> None:
    board = chain(m=[action(n, "Queued") for n in range(1, 9)])
    event(board, 1, "Failed", comment="first")
    event(board, 2, "Failed", comment="second")
    for number in range(3, 9):
        event(board, number, "Failed", reason="Prerequisite failed", comment="Prerequisite failed")
    folded = "and 6 not run, because an action before failed"
    assert board.board(1, 4).failures == ["m: Run 1: first", "m: Run 2: second", folded]
    assert board.board(1, 2).failures == ["m: Run 2: second", folded]
    assert board.board(1, 1).failures == ["m: Run 2: second"]
    assert board.board(1, 0).failures == []
    needs = action(1, "Failed", reason="Prerequisite failed", comment="Prerequisite failed")
    assert chain(m=[needs]).board(1, 1).failures == [folded.replace("6", "1")]


def test_board_shows_what_a_start_waits_for_until_it_is_sent() -> None:
    board = chain(m=[action(1, "Completed"), action(2, "Queued"), action(3, "Queued")])
    data = {"chain": 7, "event": "held_back", "minion": "m", "reason": "on m: waits for: it"}
    board.feed(ChainEventItem("catena/chain/7/held_back", data, STAMP))
    assert board.board(1, 0).lines[0].text == "Run 2: waits for: it"
    assert board.board(1, 0).title.endswith(": running")
    data = {"chain": 7, "event": "handed_over", "minion": "m", "reason": "to m: done"}
    board.feed(ChainEventItem("catena/chain/7/handed_over", data, STAMP))
    assert board.board(1, 0).lines[0].text == "Run 2"
    board.feed(ChainEventItem("catena/chain/7/held_back", {**data, "minion": "x"}, STAMP))


def test_events_of_unknown_actions_are_ignored() -> None:
    board = chain(m=[action(1, "Queued")])
    event(board, 99, "Failed", reason="x")
    assert board.board(1, 3).failures == []


def test_failures_kept_by_the_chain_board_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "KEPT_FAILURES", 2)
    board = chain(m=[action(n, "Queued") for n in range(1, 6)])
    for number in range(1, 6):
        event(board, number, "Failed", reason="no")
    assert board.board(1, 9).failures == ["m: Run 4: no", "m: Run 5: no"]


def test_waiting_time_begins_at_the_last_action_or_the_start_of_the_chain() -> None:
    board = ChainBoard()
    later = [action(2, "Completed", ended=50.0), action(3, "Queued", ended=0.0)]
    board.feed(view({"a": [action(1, "Queued")], "b": later}, due=40.0))
    lines = board.board(9, 0).lines
    assert [(one.minion, one.since) for one in lines] == [("a", 40.0), ("b", 50.0)]


@pytest.mark.parametrize(
    ("kind", "since", "shown"),
    [(WAITING, 10.0, "5s"), (ACTIVE, 10.0, "5s"), (WAITING, 20.0, ""), (DONE, 10.0, "")],
)
def test_board_shows_the_elapsed_time_of_waiting_and_working_minions(
    kind: str, since: float, shown: str
) -> None:
    cells = _cells(BoardLine("a", kind, 0, 1, "", since), True, 15.0)
    assert cells[3].plain == shown


def test_job_board_shows_the_progress_of_a_batch() -> None:
    follower = JobFollower()
    board = JobBoard(follower, "test.ping on *")
    ret = {"success": False, "retcode": 2, "value": ["no such\x07 file"]}
    for item in (
        {"type": "new", "jid": "1", "minions": ["a", "b", "c", "d"]},
        {"type": "delivery", "minion": "b", "state": "received", "detail": "step 2"},
        {"type": "delivery", "minion": "c", "state": "held", "detail": ""},
        {"type": "delivery", "minion": "d", "state": "expired", "detail": "too late"},
        {"type": "return", "minion": "a", "ret": ret},
    ):
        follower.feed(item)
        board.feed(item, 7.0)
    found = board.board(9, 9)
    assert [(line.minion, line.kind, line.text) for line in found.lines] == [
        ("d", FAILED, "expired: too late"),
        ("a", FAILED, "exit code 2"),
        ("b", ACTIVE, "received: step 2"),
        ("c", WAITING, "held"),
    ]
    assert (found.done, found.total, found.title) == (2, 4, "test.ping on * (job 1)")
    assert found.failures == ["a: no such\\x07 file"]


def test_job_board_shows_running_file_transfers() -> None:
    follower = JobFollower()
    board = JobBoard(follower, "state.apply on *")
    data = {"path": "iso/\x1b.iso", "done": 41 << 20, "total": 700 << 20}
    step = {"type": "progress", "minion": "a", "seq": 2, "kind": "transfer", "data": data}

    def text(item: dict[str, Any]) -> str:
        follower.feed(item)
        board.feed(item, 7.0)
        return board.board(9, 0).lines[0].text

    text({"type": "new", "jid": "1", "minions": ["a"]})
    text({"type": "delivery", "minion": "a", "state": "running", "detail": ""})
    assert text(step) == "running: iso/\\x1b.iso: 41 of 700 MiB"
    assert text({**step, "kind": "state"}) == "running"
    text(step)
    ended = {"type": "delivery", "minion": "a", "state": "cancelled", "detail": "by anna"}
    assert text(ended) == "cancelled: by anna"


@pytest.mark.parametrize(
    "data", [None, [], {}, {"path": "a", "done": "1", "total": 2}, {"path": 1, "done": 1}]
)
def test_malformed_transfer_progress_is_ignored(data: Any) -> None:
    assert fetching({"type": "progress", "minion": "a", "kind": "transfer", "data": data}) == ""


def test_state_tag_is_shown_as_id_and_function() -> None:
    tag = "file_|-a b_|-/etc/x_|-managed"
    assert spoken(f"x {tag}: no") == "x a b (file.managed): no"
    assert spoken("no tag: a_|-b") == "no tag: a_|-b"
    assert parts(tag) == ("a b", "file.managed")
    assert parts("else") == ("else", "")


def test_board_shows_the_last_output_line_of_a_running_action() -> None:
    board = chain(m=[action(1, "Picked Up"), action(2, "Queued")])
    board.feed(ChainOutputItem("m", "stdout", "a\nb\x1b\n\n", 0))
    assert board.board(1, 0).lines[0].text == "Run 1: b\\x1b"
    event(board, 1, "Completed")
    event(board, 2, "Picked Up")
    assert board.board(1, 0).lines[0].text == "Run 2"

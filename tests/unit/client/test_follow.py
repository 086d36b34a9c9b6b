from __future__ import annotations

from typing import Any

from catena.client.follow import JobFollower


def ret(success: bool = True, retcode: int = 0) -> dict[str, Any]:
    return {"success": success, "retcode": retcode, "value": True, "out": ""}


def follower(*items: dict[str, Any], wait: bool = False) -> JobFollower:
    found = JobFollower(wait_for_absent=wait)
    found.feed({"type": "new", "jid": "1", "minions": ["a", "b"], "missing": []})
    for item in items:
        found.feed(item)
    return found


def away(minion: str) -> dict[str, Any]:
    return {"type": "presence", "minion": minion, "up": False}


def delivery(minion: str, state: str, detail: str = "") -> dict[str, Any]:
    return {"type": "delivery", "minion": minion, "state": state, "detail": detail}


def test_it_ends_when_everybody_has_answered() -> None:
    done = follower(
        {"type": "return", "minion": "a", "ret": ret()},
        {"type": "return", "minion": "b", "ret": ret()},
    )
    assert done.finished
    assert done.exit_code() == 0


def test_a_running_minion_is_waited_for() -> None:
    assert not follower(delivery("a", "running"), away("b")).finished


def test_a_queued_job_of_a_connected_minion_is_waited_for() -> None:
    done = {"type": "return", "minion": "a", "ret": ret()}
    assert not follower(done, delivery("b", "queued")).finished
    assert not follower(done, delivery("b", "held")).finished


def test_an_absent_minion_is_not_waited_for_and_counts_as_not_reached() -> None:
    done = follower(
        {"type": "return", "minion": "a", "ret": ret()}, delivery("b", "queued"), away("b")
    )
    assert done.finished
    assert done.exit_code() == 3
    assert "not connected" in done.open()["b"]


def test_paused_delivery_is_not_waited_for_and_counts_as_not_reached() -> None:
    done = follower(
        {"type": "return", "minion": "a", "ret": ret()}, delivery("b", "paused", "paused by joe")
    )
    assert done.finished
    assert done.exit_code() == 3
    assert done.open()["b"] == "not sent: paused by joe"


def test_a_minion_that_left_with_the_job_is_waited_for() -> None:
    done = {"type": "return", "minion": "a", "ret": ret()}
    assert not follower(done, delivery("b", "running"), away("b")).finished


def test_an_absent_minion_is_waited_for_when_a_time_is_given() -> None:
    assert not follower(
        {"type": "return", "minion": "a", "ret": ret()}, away("b"), wait=True
    ).finished


def test_a_failure_anywhere_is_exit_1() -> None:
    items = [
        {"type": "return", "minion": "a", "ret": ret(False, 1)},
        {"type": "return", "minion": "b", "ret": ret()},
    ]
    assert follower(*items).exit_code() == 1
    assert follower(items[1], delivery("a", "expired")).exit_code() == 1


def test_stopping_early_is_try_later() -> None:
    assert follower(delivery("a", "running"), delivery("b", "running")).exit_code() == 75


def test_failed_minions_are_named_with_their_codes() -> None:
    done = follower(
        {"type": "return", "minion": "b", "ret": ret(success=False, retcode=3)},
        {"type": "return", "minion": "a", "ret": ret()},
    )
    assert done.failed() == {"b": 3}


def test_a_minion_that_has_the_job_has_not_answered() -> None:
    assert follower(delivery("a", "received")).open()["a"] == "no answer yet, received"

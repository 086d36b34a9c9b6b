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


def test_follower_ends_when_every_minion_has_answered() -> None:
    done = follower(
        {"type": "return", "minion": "a", "ret": ret()},
        {"type": "return", "minion": "b", "ret": ret()},
    )
    assert done.finished
    assert done.exit_code() == 0


def test_follower_waits_for_a_running_minion() -> None:
    assert not follower(delivery("a", "running"), away("b")).finished


def test_follower_waits_for_a_queued_job_of_a_connected_minion() -> None:
    done = {"type": "return", "minion": "a", "ret": ret()}
    assert not follower(done, delivery("b", "queued")).finished
    assert not follower(done, delivery("b", "held")).finished


def test_follower_does_not_wait_for_an_absent_minion() -> None:
    done = follower(
        {"type": "return", "minion": "a", "ret": ret()}, delivery("b", "queued"), away("b")
    )
    assert done.finished
    assert done.exit_code() == 3
    assert "not connected" in done.open()["b"]


def test_follower_does_not_wait_for_a_paused_delivery() -> None:
    done = follower(
        {"type": "return", "minion": "a", "ret": ret()}, delivery("b", "paused", "paused by joe")
    )
    assert done.finished
    assert done.exit_code() == 3
    assert done.open()["b"] == "not sent: paused by joe"


def test_follower_waits_for_a_minion_that_disconnected_with_a_running_job() -> None:
    done = {"type": "return", "minion": "a", "ret": ret()}
    assert not follower(done, delivery("b", "running"), away("b")).finished


def test_follower_waits_for_an_absent_minion_with_a_timeout() -> None:
    assert not follower(
        {"type": "return", "minion": "a", "ret": ret()}, away("b"), wait=True
    ).finished


def test_exit_code_is_1_when_any_minion_failed() -> None:
    items = [
        {"type": "return", "minion": "a", "ret": ret(False, 1)},
        {"type": "return", "minion": "b", "ret": ret()},
    ]
    assert follower(*items).exit_code() == 1
    assert follower(items[1], delivery("a", "expired")).exit_code() == 1


def test_exit_code_is_75_when_the_follower_stops_early() -> None:
    assert follower(delivery("a", "running"), delivery("b", "running")).exit_code() == 75


def test_failed_minions_are_listed_with_their_exit_codes() -> None:
    done = follower(
        {"type": "return", "minion": "b", "ret": ret(success=False, retcode=3)},
        {"type": "return", "minion": "a", "ret": ret()},
    )
    assert done.failed() == {"b": 3}


def test_minion_that_received_the_job_is_listed_without_an_answer() -> None:
    assert follower(delivery("a", "received")).open()["a"] == "no answer yet, received"

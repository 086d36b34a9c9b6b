"""Limits of time and of what operators make."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from catena.core.errors import LimitError
from catena.renderers.jinja_limits import check_operator, limited_time


def test_time_is_limited_and_the_limit_ends_with_its_block() -> None:
    with pytest.raises(LimitError, match=r"0\.05 seconds"), limited_time(0.05):
        while True:
            pass
    with limited_time(30):
        pass
    assert sum(range(10_000))


def test_limit_inside_another_leaves_the_outer_one_in_force() -> None:
    with pytest.raises(LimitError, match=r"0\.05 seconds"), limited_time(0.05), limited_time(30):
        while True:
            pass


def test_time_limit_error_is_raised_again_when_it_was_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("catena.renderers.jinja_limits._AGAIN_SECONDS", 0.02)
    swallowed = 0
    with pytest.raises(LimitError), limited_time(0.02):
        while True:
            try:
                while True:
                    pass
            except LimitError:
                swallowed += 1
                if swallowed == 3:
                    raise


def test_time_limit_does_not_apply_to_other_threads() -> None:
    done = []

    def work() -> None:
        with limited_time(0.001):
            done.append(sum(range(100_000)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert done


@pytest.mark.parametrize(
    ("operator", "left", "right"),
    [
        ("*", "ab", 501),
        ("*", b"ab", 501),
        ("*", 1001, "a"),
        ("*", [1, 2], 501),
        ("**", 9, 9**9),
        ("**", -9, 9**9),
    ],
)
def test_operator_with_a_result_above_the_limit_is_refused(
    operator: str, left: Any, right: Any
) -> None:
    assert "the result of" in refusal(operator, left, right)


def refusal(operator: str, left: Any, right: Any) -> str:
    """Return why an operator is refused with a limit of 1000 items; "" if it is allowed."""
    try:
        check_operator(operator, left, right, 1000)
    except LimitError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("operator", "left", "right"),
    [
        ("*", "ab", 500),
        ("*", 10**9, 10**9),
        ("**", 2, 1000),
        ("**", 2.0, 10**6),
        ("**", 9, -(9**9)),
    ],
)
def test_operator_with_a_result_within_the_limit_is_allowed(
    operator: str, left: Any, right: Any
) -> None:
    assert refusal(operator, left, right) == ""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.waiting import process_ends, until, wait_until


def test_wait_returns_the_first_true_value() -> None:
    values = iter([0, "", "found", "later"])
    assert wait_until(lambda: next(values), "a value") == "found"


def test_wait_fails_with_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match="waited 0 s for the return"):
        wait_until(lambda: False, "the return", 0.0)


async def test_wait_in_a_coroutine_takes_functions_and_coroutine_functions() -> None:
    async def found() -> str:
        return "found"

    assert await until(found) == "found"
    assert await until(lambda: 3) == 3
    with pytest.raises(AssertionError, match="waited 0 s for the row"):
        await until(lambda: False, "the row", 0.0)


def test_end_of_a_process_is_noticed_and_a_running_one_is_not_taken_for_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not process_ends(child.pid, 0.0)
    child.kill()
    assert process_ends(child.pid)
    child.communicate()
    assert process_ends(child.pid, 0.0)

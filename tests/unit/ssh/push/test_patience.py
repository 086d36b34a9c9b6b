"""Requests of hosts that use too much processor time are ended."""

from __future__ import annotations

import threading
import time

import pytest

from catena.ssh.push.patience import TooSlowError, limited


def in_thread(work: threading.Event, found: list[object], stubborn: bool) -> None:
    try:
        with limited(0.1):
            while True:
                try:
                    while True:
                        pass
                except TooSlowError:
                    if not stubborn:
                        raise
                    stubborn = False
    except TooSlowError as error:
        found.append(str(error))
    found.append("went on")
    work.set()


@pytest.mark.parametrize("stubborn", [False, True])
def test_endless_loop_is_stopped_in_any_thread(stubborn: bool) -> None:
    work, found = threading.Event(), list[object]()
    thread = threading.Thread(target=in_thread, args=(work, found, stubborn), daemon=True)
    thread.start()
    assert work.wait(60)
    assert found == ["it took more processor time than a host may ask for", "went on"]
    thread.join(60)


def test_waiting_time_does_not_count_and_ended_blocks_are_not_interrupted() -> None:
    with limited(0.05):
        time.sleep(0.7)  # what is tested: more wall time than the limit, and no processor time
    with limited(60.0):
        assert sum(range(10)) == 45

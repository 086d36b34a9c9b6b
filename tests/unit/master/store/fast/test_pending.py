"""Waiters are notified at once, in order, and independently of errors of others."""

from __future__ import annotations

import asyncio
import logging

import pytest

from catena.core.errors import UsageError
from catena.master.store.fast.pending import Pending
from tests.support.waiting import run_ready_tasks


def test_callbacks_run_in_order_and_at_once_when_added_late(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pending, told = Pending(), list[str]()
    pending.add_done_callback(lambda ended: told.append("first"))
    pending.add_done_callback(lambda ended: told.remove("nobody"))
    pending.add_done_callback(lambda ended: told.append("second"))
    assert not pending.done()
    with caplog.at_level(logging.ERROR):
        pending.set_result(None)
    assert (pending.done(), told) == (True, ["first", "second"])
    assert "a callback after a commit failed" in caplog.text
    pending.add_done_callback(lambda ended: told.append("late"))
    assert told[-1] == "late"
    assert (pending.exception(), pending.cancelled()) == (None, False)


async def test_pending_result_can_be_awaited_before_and_after_its_end() -> None:
    good, bad = Pending(), Pending()
    both = asyncio.ensure_future(_gather(good, bad))
    await run_ready_tasks(1)
    good.set_result(7)
    bad.set_exception(UsageError("no"))
    found = await both
    assert found[0] == 7
    assert isinstance(found[1], UsageError)
    assert isinstance(bad.exception(), UsageError)
    assert await good == 7


async def _gather(*ends: Pending) -> list[object]:
    return list(await asyncio.gather(*ends, return_exceptions=True))

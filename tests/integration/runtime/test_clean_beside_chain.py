"""mgractionchains.clean while a chain runs in another process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from catena.core.chain_calls import BUSY
from catena.core.clock import ManualClock
from catena.runtime.chain_store import ChainStore
from tests.integration.runtime import conftest

CHAIN = conftest.CHAIN
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def running_chain(host: Any) -> Iterator[None]:
    """Run a chain in another process, which stops in its first action and is killed at the end."""
    host.render([host.action(1), host.action(2)])
    with host.held() as waiting:
        pid = os.fork()
        if pid == 0:
            try:
                host.start()
            finally:
                os._exit(1)
        gate = waiting()
        try:
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(gate)


@pytest.mark.parametrize(
    ("arguments", "busy"),
    [
        ({"actionchain_id": CHAIN + 1, "epoch": 1}, False),
        ({"actionchain_id": CHAIN + 1}, False),
        ({"actionchain_id": CHAIN, "epoch": 1}, True),
        ({}, True),
    ],
)
def test_clean_beside_a_running_chain_waits_only_for_that_chain(
    host: Any, arguments: dict[str, int], busy: bool
) -> None:
    with running_chain(host):
        ret = host.call("mgractionchains.clean", **arguments).ret
    if busy:
        assert not ret.success and BUSY in ret.value
    else:
        assert ret.value["removed"] is False and ret.value["runs"] == []


def test_clean_beside_a_running_chain_never_overlooks_another_that_waits(host: Any) -> None:
    resume = host.folder / "conf/minion.d/_mgractionchains.conf"
    with running_chain(host):
        resume.parent.mkdir(exist_ok=True)
        resume.write_text("damaged\n")
        ret = host.call("mgractionchains.clean", actionchain_id=CHAIN + 1, epoch=1).ret
    assert not ret.success and BUSY in ret.value
    assert resume.exists()


def test_clean_waits_for_a_chain_that_may_just_be_received(host: Any) -> None:
    # The holder of the lock was asked for this chain, or does not say for which one.
    store = ChainStore(host.folder / "cache", "boot", "", ManualClock(MOMENT))
    with running_chain(host):
        pass
    for number in (CHAIN + 1, 0):
        with store.lock(chain_id=number):
            ret = host.call("mgractionchains.clean", actionchain_id=CHAIN + 1, epoch=1).ret
        assert not ret.success and BUSY in ret.value
    with store.lock(chain_id=CHAIN):
        ret = host.call("mgractionchains.clean", actionchain_id=CHAIN + 1, epoch=1).ret
    assert ret.value["removed"] is False


def test_clean_waits_for_another_chain_if_this_one_is_open_here(host: Any) -> None:
    with running_chain(host):
        pass
    store = ChainStore(host.folder / "cache", "boot", "", ManualClock(MOMENT))
    assert store.look(CHAIN) is not None
    with store.lock(chain_id=CHAIN + 1):
        ret = host.call("mgractionchains.clean", actionchain_id=CHAIN, epoch=1).ret
    assert not ret.success and BUSY in ret.value

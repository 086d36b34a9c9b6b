"""`mgractionchains.clean` while a chain runs on the host."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from catena.core.chain_calls import BUSY
from tests.integration.runtime.conftest import CHAIN


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
        yield
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

"""The agent without sockets and processes: what it does when its disk is full."""

from __future__ import annotations

import errno
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catena.core.clock import ManualClock
from catena.core.config.minion import MinionSettings
from catena.minion import upgrade
from catena.minion.agent import CONFIRM_AGAIN_SECONDS, Agent, Ports
from catena.minion.jobs.afterwards import Commands
from catena.minion.log import Log
from catena.minion.start.blob import Start
from catena.transport.messages import Welcome


class NoProcesses:
    """No job is run."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: False


def no_link(now: float) -> Any:
    raise OSError(errno.ECONNREFUSED, "nobody is there")


def agent(folder: Path) -> Agent:
    settings = replace(
        MinionSettings(), cache_dir=str(folder / "cache"), pki_dir=str(folder / "pki")
    )
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    log = Log.open(str(folder / "log"), "info", clock)
    ports = Ports(no_link, lambda *_: NoProcesses(), Commands(), lambda: None)
    return Agent(Start(settings, "web1", "m" * 32, str(folder)), clock, log, ports)


def test_a_new_version_that_can_not_be_confirmed_on_a_full_disk_is_confirmed_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, confirmed = [True], []

    def confirm(cache_dir: Path, session: str) -> bool:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        confirmed.append(session)
        return True

    monkeypatch.setattr(upgrade, "confirm", confirm)
    made = agent(tmp_path)
    made.on_welcome(Welcome("1", 15), 0.0)
    assert made.next_due(0.0) <= CONFIRM_AGAIN_SECONDS
    full[0] = False
    made.service(CONFIRM_AGAIN_SECONDS)
    made.service(2 * CONFIRM_AGAIN_SECONDS)
    assert len(confirmed) == 1

"""Steps of a `catena call` that uses a master, for its live view."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from catena.core.job import JobProgress
from catena.minion.calls import local

STEP = JobProgress("1", 1, "transfer", {"path": "big", "done": 1, "total": 2})


class Agent:
    """Stands in for the connection to the agent."""

    def __init__(self, *_: object, **__: object) -> None:
        self.sent: list[JobProgress] = []
        self.closed = False

    def progress(self, progress: JobProgress) -> None:
        self.sent.append(progress)

    def close(self) -> None:
        self.closed = True


def test_steps_of_a_call_with_a_master_reach_its_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, seen = Agent(), []
    monkeypatch.setattr("catena.minion.worker.service.SocketService", lambda *_, **__: agent)
    monkeypatch.setattr("catena.fileserver.remote.CachingClient", Agent)
    monkeypatch.setattr(local, "place_of", lambda start: None)
    monkeypatch.setattr(local, "remote_session", lambda place, spec, service, files: service)
    monkeypatch.setattr(local, "execute", lambda service, spec: service.progress(STEP))
    start: Any = SimpleNamespace(run_dir=None, files_dir=None)
    spec: Any = None
    local._remote(start, spec, True, lambda kind, data: seen.append((kind, data)))
    assert seen == [(STEP.kind, STEP.data)]
    assert agent.sent == [STEP] and agent.closed

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.core.config.minion import MinionSettings
from catena.core.job import JobSpec
from catena.fileserver.roots import RootsClient
from catena.runtime.executor import FinishedJob, execute
from catena.runtime.host import AgentHome
from catena.runtime.session import JobSession, local_session


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    folder = tmp_path / "roots"
    folder.mkdir()
    return folder


@pytest.fixture
def place(tmp_path: Path) -> AgentHome:
    for name in ("conf", "cache"):
        (tmp_path / name).mkdir(mode=0o700)
    return AgentHome(
        MinionSettings(grains={"clash": "config"}),
        "web1",
        "m1",
        tmp_path / "conf",
        tmp_path / "cache",
        tmp_path / "pki",
        grains={"id": "web1", "os": "Debian", "os_family": "Debian", "a": {"b": [1, 2]}},
    )


@pytest.fixture
def pillar() -> dict[str, Any]:
    return {"k": "pv", "nested": {"list": ["x", "y"]}}


@pytest.fixture
def session(place: AgentHome, roots: Path, pillar: dict[str, Any]) -> JobSession:
    files = RootsClient({"base": [str(roots)]})
    return local_session(place, files, lambda override, *_: ({**pillar, **override}, ()))


@pytest.fixture
def run(session: JobSession) -> Callable[..., FinishedJob]:
    def call(fun: str, *args: Any, **kwargs: Any) -> FinishedJob:
        return execute(session, JobSpec("20260101000000000000", fun, args, kwargs))

    return call

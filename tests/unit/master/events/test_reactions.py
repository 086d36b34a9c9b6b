"""Errors while worker processes render reactor files."""

from __future__ import annotations

from typing import Any, cast

import pytest

from catena.core.errors import TryLaterError
from catena.master.events.reactions import WorkerRenderer
from catena.master.workers.pool import TaskFailedError, WorkerDiedError, Workers


class FailingWorkers:
    """Workers in which every task fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def call(self, task: str, params: dict[str, Any], queue: str = "") -> Any:
        raise self._error


async def rendered(error: Exception) -> None:
    renderer = WorkerRenderer(cast(Workers, FailingWorkers(error)))
    await renderer.render("f.sls", "go/1", {})


async def test_reaction_file_is_not_blamed_for_a_dead_worker() -> None:
    with pytest.raises(TryLaterError, match="took longer"):
        await rendered(WorkerDiedError("reactions took longer than 60 s"))


async def test_render_error_is_not_retried_as_a_temporary_one() -> None:
    with pytest.raises(TaskFailedError, match="line 3"):
        await rendered(TaskFailedError("f.sls line 3: unknown tag"))

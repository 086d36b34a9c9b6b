"""Which part of the master performs a reaction, and errors of worker processes."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, cast

import pytest

from catena.core.errors import TryLaterError
from catena.master.events.bus import EventBus
from catena.master.events.reactions import ClientPerformer, RequestAnswerer, WorkerRenderer
from catena.master.workers.pool import TaskFailedError, WorkerDiedError, Workers
from catena.reactors.reaction import Reaction, ReactionKind


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


class Recorder:
    """Stands for the request dispatcher, the workers and the event bus; records who was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, ask: Any, request: Any, key: str = "") -> Any:
        self.asked.append(ask.name)

    async def call(self, task: str, params: dict[str, Any], queue: str = "") -> Any:
        self.asked.append(f"worker {task}")

    async def fire(self, tag: str, data: Any, source: str = "") -> None:
        pass


async def asked_for(kind: ReactionKind, fun: str = "test.ping") -> list[str]:
    """Return who was asked to perform a reaction of a kind."""
    recorder = Recorder()
    performer = ClientPerformer(
        cast(RequestAnswerer, recorder),
        cast(Workers, recorder),
        cast(EventBus, recorder),
        lambda: "20260101000000000000",
    )
    await performer.perform(Reaction("x", kind, fun, "web1", args=("web1",)), "key")
    return recorder.asked


@pytest.mark.parametrize(
    ("kind", "fun", "asked"),
    [
        (ReactionKind.local, "test.ping", "job.run"),
        (ReactionKind.runner, "event.send", "runner.call"),
        (ReactionKind.wheel, "key.accept", "key.change"),
        (ReactionKind.caller, "test.ping", "worker call"),
    ],
)
async def test_reaction_is_performed_by_the_part_of_its_kind(
    kind: ReactionKind, fun: str, asked: str
) -> None:
    assert await asked_for(kind, fun) == [asked]


class NewKind(StrEnum):
    """A kind that the performer has no branch for."""

    ensemble = "ensemble"


async def test_reaction_of_an_unknown_kind_runs_nowhere() -> None:
    with pytest.raises(AssertionError, match="ensemble"):
        await asked_for(cast(ReactionKind, NewKind.ensemble))

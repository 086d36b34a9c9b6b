"""Requests of a job on a simulated host to its agent, and how the job waits for the answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from catena.core.errors import CatenaError, TryLaterError, UnreachableError
from catena.core.job import JobProgress
from catena.fileserver.remote import Request, one_by_one
from catena.minion.agent import Agent
from catena.minion.jobs.folder import job_folder
from catena.transport.failures import error_of, failure_of
from catena.transport.messages import (
    ChunkReply,
    ChunkRequest,
    ClientReply,
    Envelope,
    EventFired,
    EventStored,
    Failure,
    FilesReply,
    FilesRequest,
    JobOutput,
    ManifestReply,
    ManifestRequest,
    PillarRequest,
)
from tests.sim.prints import Print
from tests.sim.tasks import Job

if TYPE_CHECKING:
    from tests.sim.host import Host

#: How long a job waits for an agent or master that is away.
PATIENCE = 60.0


class Asker:
    """A question of a job that waits for its answer (`relay.Requester`)."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.answer: Any = None

    def send(self, message: Any, reply_to: bytes) -> None:
        """Take the answer; the first counts."""
        if self.answer is None:
            self.answer = message
            self._wake()


class Service:
    """What a job asks its agent for (`worker.Service`), with the patience of the real one."""

    def __init__(self, host: Host, job: Job) -> None:
        self._host, self._job = host, job

    def pillar(
        self, saltenv: str, pillarenv: str, override: Mapping[str, Any]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """As AgentService."""
        reply = self._patient(PillarRequest(saltenv, pillarenv, dict(override)))
        return dict(reply.pillar), reply.errors

    def manifest(self, saltenv: str) -> ManifestReply:
        """As ChunkSource."""
        reply: ManifestReply = self._patient(ManifestRequest(saltenv))
        return reply

    def chunk(self, request: ChunkRequest) -> ChunkReply:
        """As ChunkSource."""
        reply: ChunkReply = self._patient(request)
        return reply

    def files(self, request: FilesRequest) -> FilesReply:
        """As ChunkSource."""
        reply: FilesReply = self._patient(request)
        return reply

    def pipelined(self, requests: Sequence[Request], window: int) -> Iterable[Any]:
        """As ChunkSource."""
        return one_by_one(self, requests)

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """As AgentService."""
        event = EventFired(f"event-{self._host.stage.count('event')}", tag, dict(data))
        return isinstance(self._patient(event), EventStored)

    def hand_over(self, tag: str, data: Mapping[str, Any]) -> None:
        """As AgentService."""
        self.fire(tag, data)

    def settle(self) -> None:
        """As AgentService: nothing is on its way."""

    def progress(self, progress: JobProgress) -> None:
        """As AgentService: never waits."""
        self._job.check()
        host = self._host
        host.stage.soon(lambda: host.with_agent(lambda agent: agent.progressed(progress)))

    def output(self, jid: str, at: int, size: int, stream: str, text: str) -> bool:
        """As AgentService; what is sent is noted."""
        self._job.check()
        host, prints = self._host, self._host.stage.prints
        if host.agent is None or prints is None:
            return False
        folder = job_folder(host.disk.root / "cache", jid)
        message = JobOutput(jid, folder.attempts(), at, size, stream, text)
        prints.add(host.name, jid, Print(message.attempt, at, size, stream, text))
        host.stage.soon(lambda: host.with_agent(lambda agent: agent.printed(message)))
        return True

    def peer(self, call: Any) -> Any:
        """No simulated job asks for this."""
        raise AssertionError(call)

    def push(self, part: Any) -> object:
        """No simulated job sends a file."""
        raise AssertionError(part)

    def grains(self, grains: Mapping[str, Any]) -> bool:
        """As AgentService."""
        return True

    def running(self) -> list[dict[str, Any]]:
        """As AgentService."""
        return []

    def signal(self, jid: str, signal: int) -> str:
        """As AgentService."""
        return ""

    def moving(self) -> contextlib.AbstractContextManager[Callable[[], None]]:
        """As AgentService."""
        return contextlib.nullcontext(lambda: None)

    def close(self) -> None:
        """Hang up."""

    def _patient(self, message: Any) -> Any:
        end = self._host.stage.loop.now + PATIENCE
        while True:
            try:
                return self._ask(message)
            except (UnreachableError, TryLaterError):
                if self._host.stage.loop.now >= end:
                    raise
            self._job.sleep(0.5)

    def _ask(self, message: Any) -> Any:
        host = self._host
        if host.agent is None:
            raise UnreachableError("there is no agent")
        asked: list[Asker] = []

        def begin(wake: Callable[[], None]) -> None:
            asker = Asker(wake)
            asked.append(asker)
            host.askers.add(asker)
            host.stage.soon(lambda: host.with_agent(lambda agent: put(agent, asker)))
            # An agent that dies before it hears of it.
            host.stage.later(120.0, wake)

        def put(agent: Agent, asker: Asker) -> None:
            envelope = Envelope(host.stage.identity(), b"\0" * 16, message)
            try:
                if isinstance(message, EventFired):
                    agent.fired(message, partial(_answer, asker, message))
                else:
                    agent.relay.ask(asker, envelope, host.clock.monotonic())
            except CatenaError as error:
                asker.send(failure_of(error), b"")

        self._job.wait(begin)
        asker = asked[0]
        host.askers.discard(asker)
        if asker.answer is None:
            raise UnreachableError("no answer")
        if isinstance(asker.answer, Failure):
            raise error_of(asker.answer)
        assert not isinstance(asker.answer, ClientReply)
        return asker.answer


def _answer(asker: Asker, event: EventFired, fault: Exception | None) -> None:
    kept = EventStored(event.event_id)
    asker.send(kept if fault is None else failure_of(CatenaError(str(fault))), b"")

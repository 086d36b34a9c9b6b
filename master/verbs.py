"""Handlers of the client's verbs, but those of chains."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from catena.client import requests as r
from catena.core.errors import UsageError
from catena.core.events import is_tag
from catena.core.job import DEFAULT_DEADLINE_SECONDS
from catena.core.types import JSON
from catena.master.events.bus import EventBus
from catena.master.gate.views import MinionViews
from catena.master.jobs.model import JobRequest
from catena.master.jobs.service import Jobs
from catena.master.jobs.targets import Targets
from catena.master.jobs.views import JobViews, submitted_reply
from catena.master.keys.service import Keys
from catena.master.minions.sessions import Link, Sessions
from catena.master.requests.blobs import Blobs
from catena.master.requests.dispatcher import Aside, End, Handler
from catena.master.requests.once import RequestLog
from catena.master.requests.rights import Caller
from catena.master.runners.calls import Runners
from catena.transport.messages import KeyRotate

EXPIRY_LIMIT_SECONDS = 365 * 24 * 3600
#: Items of a job whose news is where it stands: each comes before what it came for.
_ASIDE = frozenset({"new", "delivery"})


@dataclass(frozen=True, slots=True)
class VerbParts:
    """What the handlers work with."""

    jobs: Jobs
    views: JobViews
    minions: MinionViews
    bus: EventBus
    keys: Keys
    targets: Targets
    runners: Runners
    blobs: Blobs
    sessions: Sessions
    link: Link
    master_fingerprint: str
    requests: RequestLog


class Verbs:
    """One method per verb: takes the caller and the record."""

    def __init__(self, parts: VerbParts) -> None:
        self._parts = parts

    def table(self) -> Mapping[str, Handler]:
        """Return verb -> handler."""
        return {
            "job.run": self.job_run,
            "job.list": self.job_list,
            "job.show": self.job_show,
            "job.watch": self.job_watch,
            "job.cancel": self.job_cancel,
            "request.find": self.request_find,
            "event.watch": self.event_watch,
            "event.send": self.event_send,
            "key.list": self.key_list,
            "key.change": self.key_change,
            "key.finger": self.key_finger,
            "key.token": self.key_token,
            "minion.list": self.minion_list,
            "minion.show": self.minion_show,
            "runner.call": self.runner_call,
            "blob.put": self.blob_put,
        }

    def job_run(self, caller: Caller, asked: r.RunJob) -> Any:
        """Run a function on the minions of a target."""
        request = JobRequest(
            user=caller.name,
            fun=asked.fun,
            args=asked.args,
            kwargs=asked.kwargs,
            tgt=asked.tgt,
            tgt_type=asked.tgt_type,
            metadata=asked.metadata,
            expiry_seconds=_expiry(asked.expiry_seconds),
            deadline_seconds=_deadline(asked.deadline_seconds),
            batch=asked.batch,
            batch_wait=_batch_wait(asked),
            batch_failhard=asked.batch_failhard,
            subset=_subset(asked.subset),
            idempotency_key=asked.idempotency_key or caller.once.key,
            exact=bool(caller.once.key),
        )
        if asked.follow:
            return _job_stream(self._parts.views.follow_new(request))
        return self._submit(request)

    async def _submit(self, request: JobRequest) -> JSON:
        return submitted_reply(await self._parts.jobs.submit(request))

    async def job_list(self, caller: Caller, asked: r.JobList) -> Any:
        """List jobs."""
        return await self._parts.views.list(asked)

    async def job_show(self, caller: Caller, asked: r.JobShow) -> Any:
        """Show one job."""
        return await self._parts.views.show(asked.jid)

    def job_watch(self, caller: Caller, asked: r.JobWatch) -> AsyncIterator[Any]:
        """Follow a job from its start."""
        return _job_stream(self._parts.views.follow(asked.jid))

    async def job_cancel(self, caller: Caller, asked: r.JobCancelRequest) -> Any:
        """Cancel a job."""
        return await self._parts.jobs.cancel(asked.jid, asked.minions, caller.name)

    async def request_find(self, caller: Caller, asked: r.RequestFind) -> Any:
        """Say whether a request was carried out."""
        return {"taken": await self._parts.requests.is_taken(caller.name, asked.key)}

    async def event_watch(self, caller: Caller, asked: r.EventWatch) -> AsyncIterator[Any]:
        """Follow events."""
        left = asked.count
        async for event in self._parts.bus.subscribe(asked.tag, asked.after):
            yield event
            left -= 1
            if left == 0:
                return

    async def event_send(self, caller: Caller, asked: r.EventSend) -> Any:
        """Put an event on the bus."""
        if not is_tag(asked.tag):
            raise UsageError(f"{asked.tag[:80]!r} can't be an event's tag")
        bus, once = self._parts.bus, caller.once
        return await bus.fire_once(once, asked.tag, asked.data, lambda event: {"seq": event.seq})

    async def key_list(self, caller: Caller, asked: r.KeyList) -> Any:
        """List keys."""
        return await self._parts.keys.list(asked.match)

    async def key_change(self, caller: Caller, asked: r.KeyChange) -> Any:
        """Accept, reject, delete or rotate keys."""
        keys = self._parts.keys
        decided = (asked.action, asked.match, asked.include, caller.name, caller.once)
        changed = await keys.change(*decided)
        if asked.action == "rotate":
            # Only who is connected can make a new key now; the others are not named.
            sessions = [self._parts.sessions.get(name) for name in changed]
            changed = [
                s.minion for s in sessions if s and self._parts.link.send(s.peer, KeyRotate())
            ]
        return {"changed": changed, "told": keys.told(changed)}

    async def key_finger(self, caller: Caller, asked: r.KeyFinger) -> Any:
        """Show fingerprints."""
        minions = self._parts.keys.fingers(asked.match)
        return {"master": self._parts.master_fingerprint, "minions": minions}

    async def key_token(self, caller: Caller, asked: r.TokenCreate) -> Any:
        """Make an enrol token."""
        keys = self._parts.keys
        return await keys.make_token(asked.id, asked.valid_seconds, caller.name, caller.once)

    async def minion_list(self, caller: Caller, asked: r.MinionList) -> Any:
        """List minions."""
        names = await self._parts.targets.resolve(asked.tgt, asked.tgt_type)
        return await self._parts.minions.list(names)

    async def minion_show(self, caller: Caller, asked: r.MinionShow) -> Any:
        """Show one minion."""
        return await self._parts.minions.show(asked.id)

    async def runner_call(self, caller: Caller, asked: r.RunnerCall) -> Any:
        """Run a function on the master."""
        return await self._parts.runners.call(caller.name, asked, caller.once)

    async def blob_put(self, caller: Caller, asked: r.BlobPut) -> Any:
        """Keep one piece of a file."""
        whole = await asyncio.to_thread(self._parts.blobs.put, asked)
        return {"whole": whole}


def _expiry(seconds: int | None) -> float:
    if seconds is None:
        return 0.0
    if not 0 < seconds <= EXPIRY_LIMIT_SECONDS:
        raise UsageError("expiry_seconds: from 1 to a year")
    return float(seconds)


def _deadline(seconds: int | None) -> int:
    if seconds is None:
        return DEFAULT_DEADLINE_SECONDS
    if not 0 < seconds <= EXPIRY_LIMIT_SECONDS:
        raise UsageError("deadline_seconds: from 1 to a year")
    return seconds


def _batch_wait(asked: r.RunJob) -> float:
    if not 0 <= asked.batch_wait <= EXPIRY_LIMIT_SECONDS:
        raise UsageError("batch_wait: seconds, from 0 to a year")
    if not asked.batch and (asked.batch_wait or asked.batch_failhard):
        raise UsageError("batch_wait and batch_failhard need a batch")
    return asked.batch_wait


def _subset(count: int) -> int:
    if count < 0:
        raise UsageError("subset: a number of minions; 0 means all")
    return count


async def _job_stream(items: AsyncIterator[dict[str, Any]]) -> AsyncIterator[Any]:
    async for item in items:
        if item["type"] == "end":
            yield End({"jid": item["jid"], "states": item["states"]})
        elif item["type"] in _ASIDE:
            yield Aside(item)
        else:
            yield item

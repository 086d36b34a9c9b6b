"""Doubles of hosts over SSH, for a whole master whose visits start no process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from catena.core.chain_calls import CLEAN
from catena.core.job import JobReturn, JobSpec
from catena.master import daemon
from catena.master.daemon import Master
from catena.master.push import messages as m
from catena.master.push.visitor import VisitDiedError
from catena.master.push.worker import WorkerParts
from tests.integration.master.bench import a_return


def _set(event: asyncio.Event) -> asyncio.Event:
    event.set()
    return event


@dataclass
class Host:
    """A host as its visits find it."""

    machine_id: str = "m1"
    boot_id: str = "b1"
    pending: dict[str, Any] = field(default_factory=dict)
    #: What each visit ends with at once; None: it gets there.
    trouble: m.Troubled | None = None
    #: A visit that begins now reports what it finds only when this is set.
    reports: asyncio.Event = field(default_factory=lambda: _set(asyncio.Event()))
    #: A run ends only when this is set.
    ends: asyncio.Event = field(default_factory=asyncio.Event)
    visits: list[m.VisitOrder] = field(default_factory=list)
    ran: list[JobSpec] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    #: Number of visits whose process was ended.
    left: int = 0
    #: Error of each clean-up; "": it succeeds.
    refuses: str = ""
    #: What a visit says of the running job, once it has begun.
    prints: list[m.Printed] = field(default_factory=list)


class Visit:
    """A visit that does what its host says."""

    def __init__(self, host: Host, order: m.VisitOrder) -> None:
        self._host = host
        self._order = order
        self._boot_id, self._reports = host.boot_id, host.reports
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._dead = asyncio.Event()

    async def send(self, message: Any) -> None:
        if isinstance(message, m.CallOff):
            self._host.cancelled.append(message.reason)
            self._host.ends.set()
        else:
            self._answers.put_nowait(message)

    async def messages(self) -> AsyncIterator[Any]:
        host, spec = self._host, self._order.spec
        if host.trouble is not None:
            yield host.trouble
            return
        await self._reports.wait()
        yield m.HostReport(
            host.machine_id, self._boot_id, "", "10.0.0.1", {"os": "x"}, host.pending
        )
        go = await self._answers.get()
        if go.on and spec is not None:
            host.ran.append(spec)
            yield m.Began()
            for each in host.prints:
                yield each
            await asyncio.wait(
                [asyncio.ensure_future(e.wait()) for e in (host.ends, self._dead)],
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._dead.is_set():
                raise VisitDiedError("killed")
            yield m.Returned(self._return(spec))
            assert isinstance(await self._answers.get(), m.Kept)
        yield m.Done()

    def _return(self, spec: JobSpec) -> JobReturn:
        if spec.fun != CLEAN:
            return a_return(spec.jid, True)
        value = self._host.refuses or {"success": True, "runs": []}
        ret = a_return(spec.jid, value, success=not self._host.refuses)
        return replace(ret, fun=CLEAN)

    async def end(self) -> None:
        self._host.left += 1
        self._dead.set()


def reach(hosts: dict[str, Host], patch: pytest.MonkeyPatch) -> None:
    """Let the roster of every master have *hosts*, and its visits reach them."""

    async def start(order: m.VisitOrder) -> Visit:
        hosts[order.host].visits.append(order)
        return Visit(hosts[order.host], order)

    async def roster(master: Master) -> dict[str, Any]:
        return {name: {} for name in hosts}

    patch.setattr(daemon, "WorkerParts", partial(WorkerParts, start=start))
    patch.setattr(Master, "_roster", roster)

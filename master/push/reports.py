"""Reports of a visit about its job, processed like a minion's: stored once, then acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from catena.core import events
from catena.core.errors import LimitError, NotAllowedError, UsageError
from catena.core.job import JobProgress
from catena.master.events.bus import EventBus
from catena.master.jobs.output import Outputs
from catena.master.jobs.returns import Returns
from catena.master.push import messages as m
from catena.master.push.decide import OpenJob
from catena.master.store.database import Store
from catena.master.store.fast.pending import Pending
from catena.transport.messages import Envelope, JobOutput, JobReceived, JobRejected
from catena.transport.peers import Peer

#: Stores an event of a host's job once: host, event id, {tag, data}.
Fire = Callable[[str, str, Mapping[str, Any]], asyncio.Future[Any]]

_NOBODY = Peer("ssh", b"", "", "", "")
_NO_ID = b"\0" * 16


class NoLink:
    """Stands in for a minion's connection; the caller of a commit notifies the visit itself."""

    def send(self, peer: Peer, message: Any, reply_to: bytes = b"") -> bool:
        """Return without sending."""
        return False


class HostEvents:
    """Stores events of hosts, each once (`Fire`)."""

    def __init__(self, store: Store, bus: EventBus) -> None:
        self._store = store
        self._bus = bus

    def __call__(self, host: str, event_id: str, data: Mapping[str, Any]) -> asyncio.Future[Any]:
        """Store an event under the host's own name, whatever name it contains."""
        tag = events.own_tag(host, str(data.get("tag", "")))
        given = data.get("data")
        body = {**(given if isinstance(given, Mapping) else {}), "id": host}

        def keep(conn: sa.Connection) -> None:
            if not self._bus.has_event(conn, host, event_id):
                self._bus.record(conn, tag, body, host, event_id)

        return self._store.post(keep)


class Reports:
    """Processes the reports about one job.

    Args:
        returns: stores facts; its link is a `NoLink`.
        host: id of the host.
        job: the job.
        fire: stores an event.
        outputs: stores output of running commands; its link is a `NoLink`.
    """

    def __init__(
        self, returns: Returns, host: str, job: OpenJob | None, fire: Fire, outputs: Outputs
    ) -> None:
        self._returns = returns
        self._outputs = outputs
        self._fire = fire
        self._host = host
        self._jid = job.jid if job is not None else ""
        self._last: asyncio.Future[Any] | Pending | None = None

    async def take(self, message: Any) -> None:
        """Process a message of the visit; messages are stored in their order."""
        if not self._jid:
            return
        if isinstance(message, m.Began):
            self._keep(self._returns.received(self._host, JobReceived(self._jid, 0)))
        elif isinstance(message, m.Stepped) and message.kind == "event":
            event_id = f"{self._jid}-{message.seq}"
            self._keep(self._fire(self._host, event_id, message.data))
        elif isinstance(message, m.Stepped):
            progress = JobProgress(
                self._jid, message.seq, message.kind, message.data, message.when
            )
            self._keep(self._returns.progressed(self._host, progress))
        elif isinstance(message, m.Printed):
            part = JobOutput(
                self._jid, message.attempt, message.at, message.size, message.stream, message.text
            )
            # Drop invalid output, like that of a minion.
            with contextlib.suppress(LimitError):
                self._keep(self._outputs.received(_NOBODY, self._host, part, _NO_ID))
        elif isinstance(message, m.NeverBegan):
            await self._returns.rejected(
                self._host, JobRejected(self._jid, "cancelled before it began")
            )

    async def returned(self, message: m.Returned) -> None:
        """Store a return durably.

        Raises:
            CatenaError: the return could not be stored; the host keeps it.
        """
        envelope = Envelope(_NO_ID, _NO_ID, message.ret)
        await self._returns.returned(_NOBODY, self._host, message.ret, envelope)

    async def finish(self) -> None:
        """Wait until all reports are stored."""
        if self._last is not None:
            await asyncio.gather(self._last, return_exceptions=True)

    def _keep(self, ended: asyncio.Future[Any] | Pending) -> None:
        self._last = ended
        ended.add_done_callback(_look_at)


def _look_at(ended: asyncio.Future[Any] | Pending) -> None:
    """Retrieve the error of an invalid step, which is dropped like that of a minion."""
    error = None if ended.cancelled() else ended.exception()
    if error is not None and not isinstance(error, (LimitError, NotAllowedError, UsageError)):
        raise error

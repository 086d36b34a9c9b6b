"""The room of chains as the composition root sees it: handlers, observer, overlay, tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import sqlalchemy as sa

from catena.core import failpoints
from catena.core.events import Event
from catena.master.acl import Caller
from catena.master.chains.parts import ChainParts
from catena.master.chains.results import ChainResults
from catena.master.chains.scheduler import Scheduler
from catena.master.chains.service import ChainService
from catena.master.event_bus import move_cursor
from catena.master.gateway import End, Handler
from catena.master.store.database import StoreUnavailableError

LOG = logging.getLogger(__name__)

CONSUMER = "chains"
_STARTS = "salt/minion/*/start"

_Verb = Callable[[Any, str], Awaitable[Any]]


class Chains:
    """Everything of chains on one master.

    The composition root hands `results` to `Jobs.observe`, `handlers` to the dispatcher,
    `files.overlay` and `files.SHIPPED` to the file service, awaits `open` once, and runs `run`.
    """

    def __init__(self, parts: ChainParts) -> None:
        self.files = parts.files
        self.service = ChainService(parts)
        self.scheduler = Scheduler(parts)
        self.results = ChainResults(parts.clocks, parts.wake.set)
        self._parts = parts

    def handlers(self) -> Mapping[str, Handler]:
        """Return verb -> handler, for every verb of chains."""
        service = self.service
        verbs: dict[str, _Verb] = {
            "chain.create": service.create,
            "chain.add": service.add,
            "chain.edit": service.edit,
            "chain.move": service.move,
            "chain.remove_entry": service.remove_entry,
            "chain.apply": service.apply,
            "chain.schedule": service.schedule,
            "chain.approve": service.approve,
            "chain.list": service.list,
            "chain.show": service.show,
            "chain.cancel": service.cancel,
            "chain.retry": service.retry,
            "chain.resolve": service.resolve,
            "chain.release": service.release,
            "chain.render": service.render,
            "chain.preview": service.preview,
            "chain.delete": service.delete,
        }
        table: dict[str, Handler] = {name: _handler(verb) for name, verb in verbs.items()}
        table["chain.watch"] = self._watch
        return table

    async def open(self) -> None:
        """Learn who sees which files; call it before the file service answers."""
        await self.files.load(self._parts.store)

    async def run(self) -> None:
        """Start due chains and follow minion starts, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.scheduler.run())
            tasks.create_task(self.follow_starts())

    async def follow_starts(self) -> None:
        """Take every start event once, in order, also those of when the master was away."""
        position = await self._parts.bus.cursor(CONSUMER)
        async for event in self._parts.bus.subscribe(_STARTS, position):
            await self.take_start(event)

    async def take_start(self, event: Event) -> None:
        """Let one start event prove the reboots that wait for it."""
        minion, boot_id = event.data.get("id"), event.data.get("boot_id")
        # The master makes these events itself; one that a minion sent carries its source.
        known = not event.source and isinstance(minion, str) and isinstance(boot_id, str)

        failpoints.hit("master.start.follow")

        def take(conn: sa.Connection) -> None:
            if known:
                items = self.results.on_start(conn, str(minion), str(boot_id))
                self._parts.record_all(conn, items)
            move_cursor(conn, CONSUMER, event.seq)

        try:
            await self._parts.store.write(take)
        except StoreUnavailableError:
            raise
        except Exception:
            # A fault of ours: its reboots stay unproven and fail in time; the others' go on.
            LOG.exception("the start event %d of %s can't be followed", event.seq, minion)
            await self._parts.store.write(lambda conn: move_cursor(conn, CONSUMER, event.seq))

    async def _watch(self, caller: Caller, asked: Any) -> AsyncIterator[Any]:
        last: dict[str, Any] = {}
        async for item in self.service.watch(asked, caller.name):
            if item["type"] == "chain":
                last = item
            yield item
        yield End({"id": last["id"], "state": last["state"], "reason": last["reason"]})


def _handler(verb: _Verb) -> Handler:
    return lambda caller, asked: verb(asked, caller.name)

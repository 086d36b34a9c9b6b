"""The room of chains as the composition root sees it: handlers, observer, overlay, tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import sqlalchemy as sa

from catena.core import failpoints, run_ref
from catena.core.events import Event
from catena.core.run_ref import RunRef
from catena.master.chains import restored, rows
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.handlers import ChainHandlers
from catena.master.chains.results import ChainResults
from catena.master.chains.scheduler import Scheduler
from catena.master.chains.service import ChainService
from catena.master.events.bus import move_cursor
from catena.master.store.database import StoreUnavailableError

LOG = logging.getLogger(__name__)

CONSUMER = "chains"
#: Events without a start after which the position is saved.
UNSAVED = 1000
_STARTS = "salt/minion/*/start"


class _Boot(NamedTuple):
    """What a start event says."""

    minion: str
    boot_id: str
    #: The run that waits there for its resume.
    waits: RunRef | None


class Chains:
    """Everything of chains on one master.

    The composition root hands `results` to `Jobs.observe`, `handlers` to the dispatcher,
    `files.overlay` and `files.SHIPPED` to the file service, awaits `open` once, and runs `run`.
    """

    def __init__(self, parts: ChainParts) -> None:
        self.files = parts.files
        self.service = ChainService(parts)
        self.handlers = ChainHandlers(parts)
        self.scheduler = Scheduler(parts)
        self.results = ChainResults(parts.clocks, parts.wake.set)
        self._parts = parts

    async def open(self) -> None:
        """Learn who sees which files; call it before the file service answers.

        What a master on another host left in the store is converted to the clocks of this one.
        """
        now, allowed = self._parts.clocks.read(), self._parts.rules.boundary_seconds
        await self._parts.store.write(lambda conn: rows.rebase(conn, now, allowed))
        await restored.settle(self._parts)
        await self.files.load(self._parts.store)

    async def run(self) -> None:
        """Start due chains and follow minion starts, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.scheduler.run())
            tasks.create_task(self.follow_starts())

    async def follow_starts(self) -> None:
        """Take every start event once, in order, also those of when the master was away."""
        bus = self._parts.bus
        saved = await bus.cursor(CONSUMER)
        async for stretch in bus.follow((_STARTS,), saved):
            if stretch.events:
                await self.take_starts(stretch.events, stretch.upto)
            elif stretch.upto - saved < UNSAVED:
                continue
            else:
                # Without it, no event that is younger than the last start could be pruned.
                await bus.advance(CONSUMER, stretch.upto)
            saved = stretch.upto

    async def take_starts(self, starts: Sequence[Event], upto: int) -> None:
        """Let start events prove the reboots that wait for them.

        Args:
            starts: in their order.
            upto: there are no others up to this position.
        """
        failpoints.hit("master.start.follow")
        boots = [boot for boot in map(_boot, starts) if boot is not None]
        # Most are in no chain: a fleet that comes back is a thousand starts and nothing to store.
        names = {boot.minion for boot in boots}
        busy = await self._parts.store.read(partial(rows.with_work, names))
        boots = [boot for boot in boots if boot.minion in busy or boot.waits]
        if not boots:
            await self._parts.bus.advance(CONSUMER, upto)
            return
        try:
            await self._parts.store.write(partial(self._prove, boots, upto))
        except StoreUnavailableError:
            raise
        except Exception:
            if len(starts) > 1:
                for start in starts:
                    await self.take_starts((start,), start.seq)
                return
            # A fault of ours: its reboots stay unproven and fail in time; the others' go on.
            LOG.exception("the start event %d of %s can't be followed", upto, boots[0].minion)
            await self._parts.bus.advance(CONSUMER, upto)

    def _prove(self, boots: Sequence[_Boot], upto: int, conn: sa.Connection) -> None:
        for boot in boots:
            self._parts.record_all(conn, self.results.on_start(conn, *boot))
        move_cursor(conn, CONSUMER, upto)


def _boot(start: Event) -> _Boot | None:
    """Return what a start event says of a minion's boot, where it says so."""
    minion, boot_id = start.data.get("id"), start.data.get("boot_id")
    # The master makes these events itself; one that a minion sent carries its source.
    if start.source or not isinstance(minion, str) or not isinstance(boot_id, str):
        return None
    pending = start.data.get("pending_resume")
    waits = run_ref.named(pending) if isinstance(pending, Mapping) else None
    return _Boot(minion, boot_id, waits)
